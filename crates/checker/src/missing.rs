//! The order that missing methods force (rule 3 of the model).
//!
//! Let S(m) be the events of a call of a missing method. All events of calls that could reach a common object keep
//! their order; what touches an object from outside keeps its order with all events of calls that could reach it, and
//! two such touches do if one such call is open at both. The whole order follows from
//! each event's nearest predecessors, which this file lists: nothing has to be remembered during a check.
//!
//! Only the begin and the end of a call look at all that it could reach. In between, two calls that share an object
//! know of each other, and a touch is announced to the open calls that could reach what it touches.

use crate::reach::Objects;
use snag_model::{Action, EventId, Op, ReachId, ThreadId, Trace};
use std::collections::BTreeMap;

/// What must have happened before each event because methods are missing.
pub(crate) struct MissingMethods {
    /// Where the predecessors of each event begin, and one end.
    start: Vec<usize>,
    /// At most one of each thread: the last, as it comes after all earlier ones.
    before: Vec<EventId>,
    /// Whether the event belongs to a call.
    in_call: Vec<bool>,
}

impl MissingMethods {
    pub fn of(trace: &Trace, objects: &Objects) -> MissingMethods {
        let mut walk = Walk::new(trace, objects);
        let mut order = MissingMethods { start: vec![0], before: Vec::new(), in_call: Vec::new() };
        for index in 0..trace.len() {
            let inside = walk.event(EventId::new(index));
            order.in_call.push(inside);
            walk.needed.drain(&mut order.before);
            order.start.push(order.before.len());
        }
        order
    }

    /// What must have happened before an event.
    #[inline]
    pub fn before(&self, event: EventId) -> &[EventId] {
        &self.before[self.start[event.index()]..self.start[event.index() + 1]]
    }

    /// Whether code that was not observed may have run directly before the event in its thread.
    #[inline]
    pub fn in_call(&self, event: EventId) -> bool {
        self.in_call[event.index()]
    }
}

type Step = (ThreadId, EventId);

/// The trace as far as it was followed.
struct Walk<'a> {
    trace: &'a Trace,
    objects: &'a Objects<'a>,
    history: Vec<History>,
    /// Open calls; a slot is used again when its call has ended.
    calls: Vec<Call>,
    free: Vec<usize>,
    threads: Vec<Thread>,
    /// For each two threads how often open calls of theirs share an object, if they do.
    overlaps: BTreeMap<(ThreadId, ThreadId), u32>,
    needed: Needed,
}

/// What has happened to one object so far.
#[derive(Clone, Default)]
struct History {
    /// The open calls that could reach it.
    open: Vec<usize>,
    /// The last end of a call that could reach it.
    ended: Option<Step>,
    /// The last touch while a call of another thread that could reach it was open.
    during: Option<Step>,
    /// The last touch of each thread since all such calls have ended.
    touches: Vec<Step>,
}

struct Call {
    thread: ThreadId,
    reach: ReachId,
    /// The last touch from outside of anything that it could reach, since it began.
    touched: Option<Step>,
}

#[derive(Clone, Default)]
struct Thread {
    /// Its open calls.
    calls: Vec<usize>,
    latest: Option<Step>,
    /// What its next event comes after: touches of others, and ends of calls.
    pending: Vec<Step>,
}

impl<'a> Walk<'a> {
    fn new(trace: &'a Trace, objects: &'a Objects<'a>) -> Walk<'a> {
        let threads = trace.tables.thread_count();
        Walk {
            trace,
            objects,
            history: vec![History::default(); objects.count()],
            calls: Vec::new(),
            free: Vec::new(),
            threads: vec![Thread::default(); threads],
            overlaps: BTreeMap::new(),
            needed: Needed { newest: vec![0; threads], some: Vec::new() },
        }
    }

    /// Follows one event and leaves in `needed` what comes before it. Says whether it belongs to a call.
    fn event(&mut self, id: EventId) -> bool {
        let event = self.trace.event(id);
        let step = (event.thread, id);
        if let Action::MethodBegin { reach, .. } = event.action() {
            self.begin(step, reach);
        }
        let inside = !self.threads[event.thread.index()].calls.is_empty();
        if inside {
            self.inside(event.thread);
        }
        for object in self.objects.touched(id, &event) {
            self.touch(step, object);
        }
        if event.op == Op::MethodEnd {
            self.end(step);
        }
        self.threads[event.thread.index()].latest = Some(step);
        self.needed.forget(event.thread);
        inside
    }

    fn begin(&mut self, step: Step, reach: ReachId) {
        let call = Call { thread: step.0, reach, touched: None };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.calls[slot] = call;
                slot
            }
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        };
        self.threads[step.0.index()].calls.push(slot);
        for &object in self.objects.reached(reach) {
            let history = &mut self.history[object as usize];
            self.needed.add(history.ended);
            self.needed.add(history.during);
            history.touches.drain(..).for_each(|touch| self.needed.add(Some(touch)));
            for &other in &history.open {
                let (a, b) = (step.0, self.calls[other].thread);
                *self.overlaps.entry((a, b)).or_default() += 1;
                *self.overlaps.entry((b, a)).or_default() += 1;
            }
            history.open.push(slot);
        }
    }

    /// An event of a thread that is inside a call.
    fn inside(&mut self, thread: ThreadId) {
        for (&(_, other), _) in self.overlaps.range((thread, ThreadId(0))..=(thread, ThreadId(u32::MAX))) {
            self.needed.add(self.threads[other.index()].latest);
        }
        for step in self.threads[thread.index()].pending.drain(..) {
            self.needed.add(Some(step));
        }
    }

    fn touch(&mut self, step: Step, object: usize) {
        let history = &mut self.history[object];
        if history.open.is_empty() {
            self.needed.add(history.ended);
            return set(&mut history.touches, step);
        }
        for &slot in &history.open {
            let call = &mut self.calls[slot];
            if call.thread != step.0 {
                let thread = &mut self.threads[call.thread.index()];
                self.needed.add(history.ended);
                self.needed.add(thread.latest);
                self.needed.add(call.touched.replace(step));
                set(&mut thread.pending, step);
                history.during = Some(step);
            }
        }
    }

    fn end(&mut self, step: Step) {
        let slot = self.threads[step.0.index()].calls.pop().expect("calls nest");
        for &object in self.objects.reached(self.calls[slot].reach) {
            let history = &mut self.history[object as usize];
            history.open.retain(|&open| open != slot);
            history.ended = Some(step);
            for &other in &history.open {
                let (a, b) = (step.0, self.calls[other].thread);
                for pair in [(a, b), (b, a)] {
                    let overlaps = self.overlaps.get_mut(&pair).expect("was counted when the later call began");
                    *overlaps -= 1;
                    if *overlaps == 0 {
                        self.overlaps.remove(&pair);
                    }
                }
                set(&mut self.threads[b.index()].pending, step);
            }
        }
        self.free.push(slot);
    }
}

/// Keeps the last step of each thread.
fn set(steps: &mut Vec<Step>, step: Step) {
    match steps.iter_mut().find(|other| other.0 == step.0) {
        Some(other) => other.1 = step.1,
        None => steps.push(step),
    }
}

/// What comes before one event: of each thread the last.
struct Needed {
    /// 1 + that event; 0 if nothing.
    newest: Vec<u32>,
    /// The threads of which there is something.
    some: Vec<ThreadId>,
}

impl Needed {
    #[inline]
    fn add(&mut self, step: Option<Step>) {
        let Some((thread, event)) = step else { return };
        let newest = &mut self.newest[thread.index()];
        if *newest == 0 {
            self.some.push(thread);
        }
        *newest = (*newest).max(event.0 + 1);
    }

    /// The order of its own thread goes without saying.
    fn forget(&mut self, own: ThreadId) {
        self.some.retain(|&thread| thread != own);
        self.newest[own.index()] = 0;
    }

    fn drain(&mut self, into: &mut Vec<EventId>) {
        for thread in self.some.drain(..) {
            into.push(EventId(std::mem::take(&mut self.newest[thread.index()]) - 1));
        }
    }
}
