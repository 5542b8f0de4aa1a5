//! Code that was not observed, spelled out as accesses (docs/model.md, rule 4).
//!
//! A missing call may read, from its begin on, whatever it could reach, and write it. The rest of this crate knows
//! reads, writes and branches; so a trace with missing methods is given some of these before it is looked at:
//! directly after a begin, reads and writes of what the call could reach, and writes directly before its end.
//! At level `control` there is a branch before every event inside a call: the missing code decides whether it happens.
//!
//! Guarantee: a schedule of the trace made here, without what was added, is feasible in the original one iff the checker
//! says so, and every feasible schedule of the original can be filled up to one here. Only accesses that matter are
//! added: to cells that two threads access, one of them writing, with no begin or end of a call in between that could
//! reach them. Elsewhere rule 3 fixes the order of the accesses, and so what they see.

use crate::missing::{Missing, Objects};
use snag_model::events::Event;
use snag_model::{Cells, EventId, Op, Ops, ReachId, Trace, VarId};
use snag_model::{Level, Schedule};

/// In the `aux` column of an added read: it must find what was there in the trace, whatever that was.
pub(crate) const HIDDEN: u32 = u32::MAX;

/// A trace as the engine looks at it; mostly just the trace.
pub struct Lowered<'t> {
    trace: &'t Trace,
    cells: &'t Cells,
    own: Option<Own>,
}

struct Own {
    trace: Trace,
    cells: Cells,
    /// For each event its number in the original, or nothing if it was added.
    original: Vec<Option<EventId>>,
    /// How many events of the original come before each event here, and at the end.
    before: Vec<u32>,
    /// For each event of the original its number here.
    lowered: Vec<EventId>,
}

impl<'t> Lowered<'t> {
    /// The trace for questions at a level.
    pub fn of(trace: &'t Trace, cells: &'t Cells, level: Level) -> Lowered<'t> {
        let branches = level == Level::Control && cells.ops().has(Op::Branch);
        let own = cells.ops().has(Op::MethodBegin).then(|| accesses(trace, cells));
        let own = own.filter(|accesses| branches || !accesses.is_empty());
        Lowered { trace, cells, own: own.map(|accesses| Own::make(trace, cells, &accesses, branches)) }
    }

    /// The trace to ask about.
    pub fn trace(&self) -> &Trace {
        self.own.as_ref().map_or(self.trace, |own| &own.trace)
    }

    /// Its cells.
    pub fn cells(&self) -> &Cells {
        self.own.as_ref().map_or(self.cells, |own| &own.cells)
    }

    /// How many events the original has.
    pub fn original_len(&self) -> usize {
        self.trace.len()
    }

    /// The number here of an event of the original.
    pub fn event(&self, original: EventId) -> EventId {
        self.own.as_ref().map_or(original, |own| own.lowered[original.index()])
    }

    /// The number in the original of an event here, unless it was added.
    pub fn original(&self, event: EventId) -> Option<EventId> {
        self.own.as_ref().map_or(Some(event), |own| own.original[event.index()])
    }

    /// Where to cut the original such that the events before an event here are before the cut.
    pub fn cut(&self, event: EventId) -> EventId {
        self.own.as_ref().map_or(event, |own| EventId(own.before[event.index().min(own.before.len() - 1)]))
    }

    /// A schedule of the events here as one of the original.
    pub fn schedule(&self, schedule: Schedule) -> Schedule {
        if self.own.is_none() {
            return schedule;
        }
        let list = |events: Vec<EventId>| events.into_iter().filter_map(|event| self.original(event)).collect();
        match schedule {
            Schedule::List(events) => Schedule::List(list(events)),
            Schedule::Prefixes(ends) => Schedule::Prefixes(ends.into_iter().map(|end| self.cut(end)).collect()),
            // Events that were added may end a turn, so turns are taken apart.
            Schedule::Turns { .. } => Schedule::List(list(schedule.iter(self.trace()).collect())),
            Schedule::Continued { as_observed, then } => {
                Schedule::Continued { as_observed: self.cut(as_observed), then: list(then) }
            }
        }
    }
}

impl Own {
    fn make(trace: &Trace, cells: &Cells, accesses: &[Access], branches: bool) -> Own {
        let mut made = Trace { tables: trace.tables.clone(), ..Trace::default() };
        // What was found to cover a cell may cover others, which the added accesses must not touch.
        let mut exactly = |access: &Access| match cells.bytes(access.cell as usize) {
            Some((start, bytes)) => Access { variable: made.tables.variable_range(start, bytes), ..*access },
            None => *access,
        };
        let accesses: Vec<Access> = accesses.iter().map(&mut exactly).collect();
        let mut sources: Vec<Result<usize, usize>> = Vec::new();
        let (mut originals, mut lowered) = (Vec::new(), Vec::new());
        let mut depth = vec![0u32; trace.tables.thread_count()];
        let mut next = &accesses[..];
        for (index, event) in trace.events.iter().enumerate() {
            let mine = next.iter().take_while(|access| access.at.index() == index).count();
            let (mine, rest) = next.split_at(mine);
            next = rest;
            let thread = event.thread;
            let mut add = |(event, source): (Event, Result<usize, usize>)| {
                made.events.push(event);
                sources.push(source);
                originals.push(source.is_ok().then(|| EventId::new(index)));
                if source.is_ok() {
                    lowered.push(EventId::new(sources.len() - 1));
                }
            };
            let branch = Event { location: event.location, ..Event::new(thread, Op::Branch, 0) };
            let access = |op: Op, access: &Access| {
                let aux = if op == Op::Read { HIDDEN } else { 0 };
                let made = Event { aux, location: event.location, ..Event::new(thread, op, access.variable.0) };
                (made, Err(access.cell as usize))
            };
            if event.op == Op::MethodBegin {
                add((event, Ok(index)));
                mine.iter().for_each(|hidden| add(access(Op::Read, hidden)));
                if branches && !mine.is_empty() {
                    add((branch, Err(0)));
                }
                mine.iter().for_each(|hidden| add(access(Op::Write, hidden)));
                depth[thread.index()] += 1;
                continue;
            }
            if branches && depth[thread.index()] > 0 {
                add((branch, Err(0)));
            }
            mine.iter().for_each(|hidden| add(access(Op::Write, hidden)));
            add((event, Ok(index)));
            depth[thread.index()] -= (event.op == Op::MethodEnd) as u32;
        }
        // Wake-ups name their notify by its number.
        for index in 0..made.len() {
            if made.events.ops()[index] == Op::Wake
                && let Some(notify) = made.events.aux(index).checked_sub(1)
            {
                made.events.set_aux(index, EventId::index(lowered[notify as usize]) as u32 + 1);
            }
        }
        let mut before = Vec::with_capacity(originals.len() + 1);
        let mut count = 0;
        for original in &originals {
            before.push(count);
            count += Option::is_some(original) as u32;
        }
        before.push(count);
        let cells = cells.with_accesses(&sources, Ops::of(made.events.ops()));
        Own { trace: made, cells, original: originals, before, lowered }
    }
}

/// Memory that code that was not observed may access at a begin or end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    at: EventId,
    cell: u32,
    /// A variable with that cell.
    variable: VarId,
}

/// The accesses of a cell since the last begin or end of a call that could reach it.
#[derive(Clone, Copy)]
struct Since {
    boundary: u32,
    thread: u32,
    wrote: bool,
    shared: bool,
}

const NOBODY: u32 = u32::MAX;
const NEVER: u32 = u32::MAX;

/// The accesses that matter, by event.
fn accesses(trace: &Trace, cells: &Cells) -> Vec<Access> {
    let objects = Objects::of(trace, Missing::Reach);
    let fresh = Since { boundary: NEVER, thread: NOBODY, wrote: false, shared: false };
    let mut since = vec![fresh; cells.count()];
    // Of each object 1 + the last begin or end of a call that could reach it, and the cells shared since then.
    let mut boundary = vec![0u32; objects.count()];
    let mut shared: Vec<Vec<(u32, VarId)>> = vec![Vec::new(); objects.count()];
    let mut open: Vec<Vec<ReachId>> = vec![Vec::new(); trace.tables.thread_count()];
    let mut found = Vec::new();
    let mut touched: Vec<u32> = Vec::new();
    let columns = trace.events.ops().iter().zip(trace.events.threads()).zip(trace.events.targets());
    for (index, ((&op, &thread), &target)) in columns.enumerate() {
        let reach = match op {
            Op::MethodBegin => {
                let reach = ReachId(trace.events.aux(index));
                open[thread.index()].push(reach);
                Some(reach)
            }
            Op::MethodEnd => open[thread.index()].pop(),
            _ => None,
        };
        for &object in reach.map_or(&[][..], |reach| objects.reached(reach)) {
            boundary[object as usize] = index as u32 + 1;
            let at = EventId::new(index);
            let list = shared[object as usize].drain(..);
            found.extend(list.map(|(cell, variable)| Access { at, cell, variable }));
        }
        if !op.is_access() {
            continue;
        }
        let variable = VarId(target);
        for cell in cells.of_event(index, target) {
            touched.clear();
            match cells.bytes(cell) {
                Some((start, bytes)) => touched.extend(objects.of_bytes(start, start + (bytes - 1))),
                None => touched.extend_from_slice(objects.of_variable(variable)),
            }
            let Some(last) = touched.iter().map(|&object| boundary[object as usize]).max() else { continue };
            let since = &mut since[cell];
            if since.boundary != last {
                *since = Since { boundary: last, ..fresh };
            }
            let known = since.shared && since.wrote;
            since.wrote |= op.writes();
            since.shared |= since.thread != NOBODY && since.thread != thread.0;
            since.thread = thread.0;
            if since.shared && since.wrote && !known {
                let cell = cell as u32;
                found.extend(last.checked_sub(1).map(|at| Access { at: EventId(at), cell, variable }));
                touched.iter().for_each(|&object| shared[object as usize].push((cell, variable)));
            }
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|access| (access.at, access.cell));
    found
}
