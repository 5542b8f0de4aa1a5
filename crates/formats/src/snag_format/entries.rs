//! Payloads of the blocks that hold no events: names, comments, index, end.
//!
//! ```text
//! names    = layout u8
//!            for each of the ten kinds of names, in the order of `Space`: n  n × length  the texts
//!            n × variable     variable = 0 length text | 1 address (difference to the range before, zigzag) size
//!            n × reach set    reach set = n × (3 × id + 0 variable, 1 lock, 2 thread, or
//!                             3 × 2³² + 3 × id + 0 condition, 1 semaphore, 2 barrier);
//!                             6 × 2³² before the first one: these are arguments
//!            n × plain lock   n × (semaphore count)   n × (barrier parties)   n × (variable value-zigzag)
//! comments = n × (events since the comment before, length, text)
//! index    = n × (bytes since the block before, kind u8, events if it is a block of events)
//! end      = events u64  offset of the index or 0 u64  layout u8  "SNAGEND"
//! ```
//!
//! Numbers not marked otherwise are LEB128 of at most 64 bits, and each *n* stands before its list. Names are only
//! what is new since the names block before; ids count on.

use super::numbers::{Input, LONGEST_TEXT, put, put_text};
use super::{END_LENGTH, Entry, FILE_HEADER, Kind, unzigzag, zigzag};
use crate::text_format::{is_comment, is_marker};
use snag_model::events::Events;
use snag_model::ids::*;
use snag_model::op::Op;
use snag_model::tables::{Layout, Object, Space, Tables, Variable};
use std::collections::HashSet;

/// Most names, variables, reach sets and declarations in one block.
const MOST_ENTRIES: usize = 1 << 20;
/// Members of reach sets from here on are conditions, semaphores and barriers: ids have 32 bits, so that no variable,
/// lock or thread has such a number.
const MORE_KINDS: u64 = 3 << 32;
/// As the first member: the others are what a missing method was given.
const ARGUMENTS: u64 = 6 << 32;
/// Most members of all reach sets in one block.
const MOST_MEMBERS: usize = 4 << 20;
/// The writer begins a new block when one has become this long.
const FULL: usize = 8 << 20;
/// The kinds of names that are simply texts.
const SPACES: &[Space] = Space::ALL.split_last().expect("there are names").1;

fn layout_code(layout: Layout) -> u8 {
    layout.crlf as u8 | (layout.open_end as u8) << 1
}

fn layout_from(code: u8) -> Result<Layout, String> {
    if code > 3 {
        return Err(format!("unknown layout {code}"));
    }
    Ok(Layout { crlf: code & 1 != 0, open_end: code & 2 != 0 })
}

/// How much of the tables was written. What is in the tables is only ever added to.
#[derive(Clone, Debug)]
pub(super) struct Written {
    names: [usize; SPACES.len()],
    variables: usize,
    reaches: usize,
    declared: [usize; 4],
    comments: usize,
    crlf: bool,
    marks: Marks,
}

impl Written {
    /// Nothing; location 0 is in all tables.
    pub(super) fn new() -> Written {
        let mut names = [0; SPACES.len()];
        names[Space::Location as usize] = 1;
        Written { names, variables: 0, reaches: 0, declared: [0; 4], comments: 0, crlf: false, marks: Marks::default() }
    }

    /// Notes that a block of events follows.
    pub(super) fn events_follow(&mut self, tables: &Tables) {
        self.marks = Marks::of(tables);
    }

    /// Hands out the payloads of blocks with the names and comments that came since the last time; `count` events have
    /// been written.
    pub(super) fn each_new(
        &mut self,
        tables: &Tables,
        count: u64,
        payload: &mut Vec<u8>,
        mut each: impl FnMut(Kind, &[u8]) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let wrong =
            |message: String| crate::Error::new(crate::Position::Event(count), format!("cannot be written: {message}"));
        while self.next_names(tables, payload).map_err(wrong)? {
            each(Kind::Names, payload)?;
        }
        while self.next_comments(tables, count, payload).map_err(wrong)? {
            each(Kind::Comments, payload)?;
        }
        Ok(())
    }

    fn names_are_complete(&self, tables: &Tables) -> bool {
        SPACES.iter().all(|&s| self.names[s as usize] == tables.names(s).len())
            && self.variables == tables.variable_count()
            && self.reaches == tables.reach_count()
            && self.declared == declared(tables)
            && self.crlf == tables.layout.crlf
    }

    /// Fills `out` with the payload of the next names block; false if nothing is new.
    fn next_names(&mut self, tables: &Tables, out: &mut Vec<u8>) -> Result<bool, String> {
        out.clear();
        if self.names_are_complete(tables) {
            return Ok(false);
        }
        self.crlf = tables.layout.crlf;
        out.push(layout_code(Layout { crlf: self.crlf, open_end: false }));
        // A list that is cut short leaves nothing for the lists after it, as these may refer to it.
        let mut left = MOST_ENTRIES;
        for &space in SPACES {
            let names = tables.names(space);
            let from = self.names[space as usize];
            let mut bytes = out.len();
            let fits = (from..names.len()).take(left).take_while(|&i| {
                bytes += names.get(i).len();
                bytes < FULL
            });
            let mut count = fits.count();
            if count == 0 && from < names.len() && left == MOST_ENTRIES {
                count = 1;
            }
            self.names[space as usize] += count;
            left = if self.names[space as usize] < names.len() { 0 } else { left - count };
            put(out, count as u64);
            for i in from..from + count {
                if names.get(i).len() > LONGEST_TEXT {
                    return Err(format!("a name is longer than {LONGEST_TEXT} bytes"));
                }
                put(out, names.get(i).len() as u64);
            }
            (from..from + count).for_each(|i| out.extend_from_slice(names.get(i).as_bytes()));
        }
        self.variables(tables, &mut left, out)?;
        self.reaches(tables, &mut left, out)?;
        self.declarations(tables, &mut left, out)?;
        Ok(true)
    }

    fn variables(&mut self, tables: &Tables, left: &mut usize, out: &mut Vec<u8>) -> Result<(), String> {
        let mut list = Vec::new();
        let (from, mut before) = (self.variables, 0u64);
        while self.variables < tables.variable_count() && *left > 0 && out.len() + list.len() < FULL {
            match tables.variable(VarId::new(self.variables)) {
                Variable::Named(name) => {
                    let name = tables.names(Space::VariableName).get(name as usize);
                    if name.len() > LONGEST_TEXT {
                        return Err(format!("a name is longer than {LONGEST_TEXT} bytes"));
                    }
                    list.push(0);
                    put_text(&mut list, name);
                }
                Variable::Range { address, size } => {
                    list.push(1);
                    put(&mut list, zigzag(address.wrapping_sub(before) as i64));
                    put(&mut list, size);
                    before = address;
                }
            }
            self.variables += 1;
            *left -= 1;
        }
        put(out, (self.variables - from) as u64);
        out.extend_from_slice(&list);
        if self.variables < tables.variable_count() {
            *left = 0;
        }
        Ok(())
    }

    fn reaches(&mut self, tables: &Tables, left: &mut usize, out: &mut Vec<u8>) -> Result<(), String> {
        let mut list = Vec::new();
        let (from, mut members) = (self.reaches, 0);
        while self.reaches < tables.reach_count() && *left > 0 && out.len() + list.len() < FULL {
            let objects = tables.reach_objects(ReachId::new(self.reaches));
            if objects.len() >= MOST_MEMBERS {
                return Err(format!("a missing method could reach more than {MOST_MEMBERS} objects"));
            }
            members += objects.len() + 1;
            if members > MOST_MEMBERS {
                break;
            }
            let are_arguments = tables.are_arguments(ReachId::new(self.reaches));
            put(&mut list, objects.len() as u64 + are_arguments as u64);
            if are_arguments {
                put(&mut list, ARGUMENTS);
            }
            for object in objects {
                let (id, kind, more) = match object {
                    Object::Variable(id) => (id.0, 0, 0),
                    Object::Lock(id) => (id.0, 1, 0),
                    Object::Thread(id) => (id.0, 2, 0),
                    Object::Condition(id) => (id.0, 0, MORE_KINDS),
                    Object::Semaphore(id) => (id.0, 1, MORE_KINDS),
                    Object::Barrier(id) => (id.0, 2, MORE_KINDS),
                };
                put(&mut list, id as u64 * 3 + kind + more);
            }
            self.reaches += 1;
            *left -= 1;
        }
        put(out, (self.reaches - from) as u64);
        out.extend_from_slice(&list);
        if self.reaches < tables.reach_count() {
            *left = 0;
        }
        Ok(())
    }

    fn declarations(&mut self, tables: &Tables, left: &mut usize, out: &mut Vec<u8>) -> Result<(), String> {
        let declarations = &tables.declarations;
        let all = declared(tables);
        for (kind, list) in all.iter().enumerate() {
            let from = self.declared[kind];
            let to = (*list).min(from + *left);
            self.declared[kind] = to;
            *left = if to < *list { 0 } else { *left - (to - from) };
            put(out, (to - from) as u64);
            for i in from..to {
                let (id, value) = match kind {
                    0 => (declarations.plain_locks[i].0, None),
                    1 => (declarations.semaphores[i].0.0, Some(declarations.semaphores[i].1 as u64)),
                    2 => (declarations.barriers[i].0.0, Some(declarations.barriers[i].1 as u64)),
                    _ => (declarations.initial[i].0.0, Some(zigzag(declarations.initial[i].1))),
                };
                self.marks.check(kind, id)?;
                put(out, id as u64);
                value.into_iter().for_each(|v| put(out, v));
            }
        }
        Ok(())
    }

    /// Fills `out` with the payload of the next comments block; false if nothing is new. `events` have been written.
    fn next_comments(&mut self, tables: &Tables, events: u64, out: &mut Vec<u8>) -> Result<bool, String> {
        out.clear();
        let new = &tables.comments[self.comments..];
        let mut bytes = 0;
        let fits = new.iter().take(MOST_ENTRIES).take_while(|c| {
            bytes += c.1.len() + 8;
            bytes < FULL
        });
        let count = fits.count().max(1).min(new.len());
        if count == 0 {
            return Ok(false);
        }
        put(out, count as u64);
        let mut before = 0;
        for (number, text) in &new[..count] {
            if *number < events || *number < before {
                return Err(format!("a comment of event {number} was added too late"));
            }
            if text.len() > LONGEST_TEXT || !(is_comment(text) || *number == 0 && is_marker(text)) {
                return Err(format!("a comment of event {number} is none"));
            }
            put(out, number - before);
            put_text(out, text);
            before = *number;
        }
        self.comments += count;
        Ok(true)
    }
}

fn declared(tables: &Tables) -> [usize; 4] {
    let d = &tables.declarations;
    [d.plain_locks.len(), d.semaphores.len(), d.barriers.len(), d.initial.len()]
}

/// Number of locks, semaphores, barriers and variables that events so far may have used. Only what is newer can be
/// declared: nothing is declared after its first use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks([usize; 4]);

impl Marks {
    /// At this point.
    pub(super) fn of(tables: &Tables) -> Marks {
        let names = |space: Space| tables.names(space).len();
        Marks([names(Space::Lock), names(Space::Semaphore), names(Space::Barrier), tables.variable_count()])
    }

    fn check(&self, kind: usize, id: u32) -> Result<(), String> {
        if (id as usize) < self.0[kind] {
            let what = ["lock", "semaphore", "barrier", "variable"][kind];
            return Err(format!("{what} {id} is declared after events that may have used it"));
        }
        Ok(())
    }
}

/// What a reader remembers about names from block to block.
#[derive(Default)]
pub(super) struct Known {
    marks: Marks,
    /// What was declared, against declaring twice.
    declared: [HashSet<u32>; 4],
    /// Variables that names blocks list, in their order: what they call by a number. Events that were recorded bring
    /// further variables.
    listed: Vec<VarId>,
    /// Sets of what missing methods could reach or were given, likewise: what they were given leads to further sets.
    sets: Vec<ReachId>,
    /// The same, against listing one twice.
    set_ids: HashSet<ReachId>,
    /// Whether a set has another number than in the file.
    moved: bool,
    /// Whether the events are such events, once there are any.
    recorded: Option<bool>,
}

impl Known {
    /// Notes that a block of events was read.
    pub(super) fn events_read(&mut self, tables: &Tables) {
        self.marks = Marks::of(tables);
    }

    /// Gives events from `from` on, which are as the file has them, the sets that it means. What a column says is not checked
    /// yet, so it is no action yet.
    pub(super) fn find_sets(&self, events: &mut Events, from: usize, tables: &Tables) {
        if !self.moved && self.sets.len() == tables.reach_count() {
            return;
        }
        for index in from..events.len() {
            if matches!(events.ops()[index], Op::MethodBegin | Op::Reach) {
                let set = self.sets.get(events.aux(index) as usize);
                // Others are not known, also if there are some by now.
                events.set_aux(index, set.map_or(u32::MAX, |set| set.0));
            }
        }
    }

    /// Notes which of the two kinds of blocks of events is read; a file has only one.
    pub(super) fn events_are_recorded(&mut self, recorded: bool) -> Result<(), String> {
        if *self.recorded.get_or_insert(recorded) != recorded {
            return Err("blocks of events of two kinds in one file".to_owned());
        }
        Ok(())
    }

    /// Adds the entries of a names block to the tables.
    pub(super) fn read_names(&mut self, payload: &[u8], tables: &mut Tables) -> Result<(), String> {
        let mut input = Input(payload);
        tables.layout = layout_from(input.byte()?)?;
        let mut left = MOST_ENTRIES;
        let mut lengths = Vec::new();
        for &space in SPACES {
            lengths.clear();
            for _ in 0..input.count(&mut left)? {
                lengths.push(input.length()?);
            }
            let names = tables.names_mut(space);
            for &length in &lengths {
                let text = input.bytes(length)?;
                let before = names.len();
                match names.intern_bytes(text) {
                    Err(_) => return Err("a name is not UTF-8 text".to_owned()),
                    Ok(id) if id < before => return Err(twice(names.get(id))),
                    Ok(_) => {}
                }
            }
        }
        self.read_variables(&mut input, &mut left, tables)?;
        self.read_reaches(&mut input, &mut left, tables)?;
        self.read_declarations(&mut input, &mut left, tables)?;
        input.end()
    }

    fn read_variables(&mut self, input: &mut Input, left: &mut usize, tables: &mut Tables) -> Result<(), String> {
        let mut before = 0u64;
        for _ in 0..input.count(left)? {
            let known = tables.variable_count();
            let id = match input.byte()? {
                0 => {
                    let length = input.length()?;
                    let name = input.bytes(length)?;
                    tables.variable_named_bytes(name).map_err(|_| "a variable's name is not UTF-8 text".to_owned())?
                }
                1 => {
                    let address = before.wrapping_add(unzigzag(input.number()?) as u64);
                    let size = input.number()?;
                    if size == 0 || address.checked_add(size - 1).is_none() {
                        return Err(format!("the range {address:#x}:{size} is empty or reaches over the last address"));
                    }
                    before = address;
                    tables.variable_range(address, size)
                }
                other => return Err(format!("unknown kind of variable {other}")),
            };
            // A range may have been touched by recorded events before.
            let named = matches!(tables.variable(id), Variable::Named(_));
            if id.index() < known && (named || self.recorded != Some(true)) {
                return Err(twice(&tables.variable_text(id)));
            }
            self.listed.push(id);
        }
        Ok(())
    }

    fn read_reaches(&mut self, input: &mut Input, left: &mut usize, tables: &mut Tables) -> Result<(), String> {
        let mut members = MOST_MEMBERS;
        for _ in 0..input.count(left)? {
            let count = input.count(&mut members)?;
            let mut objects = Vec::with_capacity(count.min(input.0.len()));
            let mut are_arguments = false;
            for member in 0..count {
                let code = input.number()?;
                if code == ARGUMENTS && member == 0 {
                    are_arguments = true;
                    continue;
                }
                let (code, more) = if code >= MORE_KINDS { (code - MORE_KINDS, 3) } else { (code, 0) };
                let (id, kind) = (code / 3, code % 3 + more);
                let space = |space| tables.names(space).len();
                let known = match kind {
                    0 => self.listed.len(),
                    1 => space(Space::Lock),
                    2 => space(Space::Thread),
                    3 => space(Space::Condition),
                    4 => space(Space::Semaphore),
                    _ => space(Space::Barrier),
                };
                if id >= known as u64 {
                    return Err("a missing method could reach something that has no name yet".to_owned());
                }
                let id = id as u32;
                objects.push(match kind {
                    0 => Object::Variable(self.listed[id as usize]),
                    1 => Object::Lock(LockId(id)),
                    2 => Object::Thread(ThreadId(id)),
                    3 => Object::Condition(CondId(id)),
                    4 => Object::Semaphore(SemId(id)),
                    _ => Object::Barrier(BarrierId(id)),
                });
            }
            if are_arguments && objects.is_empty() {
                return Err("a missing method was given nothing, which is no list of arguments".to_owned());
            }
            let set = if are_arguments { tables.arguments(objects) } else { tables.reach(objects) };
            self.moved |= set.index() != self.sets.len();
            self.sets.push(set);
            if !self.set_ids.insert(set) {
                return Err("a set of what a missing method could reach comes twice".to_owned());
            }
        }
        Ok(())
    }

    fn read_declarations(&mut self, input: &mut Input, left: &mut usize, tables: &mut Tables) -> Result<(), String> {
        let mut known = Marks::of(tables).0;
        known[3] = self.listed.len();
        for (kind, known) in known.into_iter().enumerate() {
            for _ in 0..input.count(left)? {
                let mut id = input.id("something declared", known)?;
                if kind == 3 {
                    id = self.listed[id as usize].0;
                }
                self.marks.check(kind, id)?;
                if !self.declared[kind].insert(id) {
                    return Err("something is declared twice".to_owned());
                }
                let value = if kind == 0 { 0 } else { input.number()? };
                let small = || u32::try_from(value).map_err(|_| format!("a count of {value} is too large"));
                match kind {
                    0 => tables.declarations.plain_locks.push(LockId(id)),
                    1 => tables.declarations.semaphores.push((SemId(id), small()?)),
                    2 if value == 0 => return Err("a barrier for 0 parties".to_owned()),
                    2 => tables.declarations.barriers.push((BarrierId(id), small()?)),
                    _ => tables.declarations.initial.push((VarId(id), unzigzag(value))),
                }
            }
        }
        Ok(())
    }
}

fn twice(name: &str) -> String {
    let short: String = name.chars().take(40).collect();
    format!("the name '{short}' comes twice")
}

/// Adds the comments of a block to the tables; `events` have been read before it.
pub(super) fn read_comments(payload: &[u8], events: u64, tables: &mut Tables) -> Result<(), String> {
    let mut input = Input(payload);
    let mut number = 0u64;
    for _ in 0..input.count(&mut { MOST_ENTRIES })? {
        number = number.checked_add(input.number()?).ok_or("a comment beyond all events")?;
        let length = input.length()?;
        let text = std::str::from_utf8(input.bytes(length)?).map_err(|_| "a comment is not UTF-8 text".to_owned())?;
        if number < events || tables.comments.last().is_some_and(|c| c.0 > number) {
            return Err(format!("a comment of event {number} comes too late"));
        }
        if !(is_comment(text) || number == 0 && is_marker(text)) {
            return Err(format!("a comment of event {number} neither is blank nor starts with '#'"));
        }
        tables.comments.push((number, text.to_owned()));
    }
    input.end()
}

/// The payload of the index.
pub(super) fn index(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, entries.len() as u64);
    let mut before = FILE_HEADER as u64;
    for entry in entries {
        put(&mut out, entry.offset - before);
        out.push(entry.kind as u8);
        if entry.kind.has_events() {
            put(&mut out, entry.events);
        }
        before = entry.offset;
    }
    out
}

/// The entries of an index of a file that has at most so many blocks.
pub(super) fn read_index(payload: &[u8], most: usize) -> Result<Vec<Entry>, String> {
    let mut input = Input(payload);
    let count = input.number()?;
    if count > most as u64 {
        return Err(format!("the index lists {count} blocks, and the file has no more than {most}"));
    }
    let mut entries = Vec::with_capacity((count as usize).min(payload.len() / 2));
    let mut offset = FILE_HEADER as u64;
    for _ in 0..count {
        offset = offset.checked_add(input.number()?).ok_or("an offset in the index is too large")?;
        let kind = Kind::from_code(input.byte()?).ok_or("the index lists an unknown kind of block")?;
        let events = if kind.has_events() { input.number()? } else { 0 };
        entries.push(Entry { kind, offset, events });
    }
    input.end()?;
    Ok(entries)
}

/// What the end block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    /// Events in the file.
    pub(super) events: u64,
    /// Where the index is; 0 if there is none.
    pub(super) index: u64,
    /// How the text looked.
    pub(super) layout: Layout,
}

const END_TEXT: &[u8; 7] = b"SNAGEND";

impl End {
    pub(super) fn encode(&self) -> [u8; END_LENGTH] {
        let mut bytes = [0; END_LENGTH];
        bytes[..8].copy_from_slice(&self.events.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.index.to_le_bytes());
        bytes[16] = layout_code(self.layout);
        bytes[17..].copy_from_slice(END_TEXT);
        bytes
    }

    pub(super) fn decode(payload: &[u8]) -> Result<End, String> {
        let word = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        if payload.len() != END_LENGTH || payload[17..] != *END_TEXT {
            return Err("the end block does not end in SNAGEND".to_owned());
        }
        Ok(End { events: word(0), index: word(8), layout: layout_from(payload[16])? })
    }
}
