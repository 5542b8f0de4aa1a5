//! Events as columns.
//!
//! | operation | `target` | `aux` |
//! |---|---|---|
//! | read, write | variable | 0, or 1 + the symbol read into / the expression written |
//! | atomic-read, atomic-write, rmw | variable | memory order |
//! | acquire, read-acquire | lock | 0, or 1 if it gives up instead of waiting |
//! | release, read-release | lock | – |
//! | fork, join | thread | 0, or 1 + the text by which an STD trace spells that thread |
//! | wait-begin, wait-end | condition | lock |
//! | wake | condition | 0 (timed out or spurious), or 1 + the notify's event number |
//! | notify, notify-all | condition | – |
//! | sem-post, sem-wait | semaphore | – |
//! | barrier-enter, barrier-leave | barrier | – |
//! | alloc, free | variable | – |
//! | method-begin | method | what it could reach, or the arguments it was given |
//! | reach | variable (the object) | what it leads to |
//! | method-end | method | – |
//! | fence | – | memory order |
//! | branch | 0, or 1 + the text an STD trace gives in brackets | 0, or 1 + its condition |
//! | let | symbol | expression |
//! | else-…, the other side of a branch | as without else | as without else |
//! | tryfail, rtryfail | lock | – |
//! | sem-value | semaphore | what it counts |
//! | join-fail | thread | – |
//! | mark | text | – |

use crate::action::Action;
use crate::ids::*;
use crate::narrow::Narrow;
use crate::op::{MemoryOrder, Op};

/// One event, gathered from the columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Who does it.
    pub thread: ThreadId,
    /// What is done.
    pub op: Op,
    /// To what; see the table above.
    pub target: u32,
    /// What else; see the table above.
    pub aux: u32,
    /// Where in the program.
    pub location: LocId,
    /// The value read or, for a write, written, where known; of a branch, which way it went (0 or 1).
    pub value: Option<i64>,
    /// The value written by an rmw, where known.
    pub written: Option<i64>,
}

impl Event {
    /// An event without location, value and aux.
    pub fn new(thread: ThreadId, op: Op, target: u32) -> Event {
        Event { thread, op, target, aux: 0, location: LocId::NONE, value: None, written: None }
    }

    /// The value this event leaves in memory, where it writes and that is known.
    pub fn value_written(&self) -> Option<i64> {
        match self.op {
            Op::Rmw => self.written,
            op if op.writes() => self.value,
            _ => None,
        }
    }

    /// The value this event reads, where it reads and that is known.
    pub fn value_read(&self) -> Option<i64> {
        if self.op.reads() { self.value } else { None }
    }

    /// Memory order of an atomic access or a fence.
    pub fn memory_order(&self) -> MemoryOrder {
        MemoryOrder::from_code(self.aux).unwrap_or_default()
    }
}

/// A run of events: a whole trace, or one block of a stream.
///
/// `op`, `thread`, `target` and `location` are always filled and equally long.
/// The columns for `aux` and values stay empty until an event needs them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// Number of events of the stream before this block.
    pub first: usize,
    op: Vec<Op>,
    thread: Vec<ThreadId>,
    target: Vec<u32>,
    location: Narrow,
    /// Empty, or as long as `op`.
    aux: Vec<u32>,
    /// Empty, or as long as `op`; meaningful where `known` says so.
    value: Vec<i64>,
    /// One bit an event; as many words as `value` needs.
    known: Vec<u64>,
    /// Index in this block and value written, for rmw events; ascending.
    written: Vec<(u32, i64)>,
}

/// The columns that every event fills, to append to.
pub struct Columns<'a> {
    /// What happens.
    pub op: &'a mut Vec<Op>,
    /// Who does it.
    pub thread: &'a mut Vec<ThreadId>,
    /// What it is done to; see [`Op`].
    pub target: &'a mut Vec<u32>,
    /// Where in the program.
    pub location: &'a mut Narrow,
}

impl Events {
    /// No events.
    pub fn new() -> Events {
        Events::default()
    }

    /// How many events there are in this block.
    #[inline]
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// Forgets the events and keeps the memory; the next event is number `first` of its stream.
    pub fn restart(&mut self, first: usize) {
        self.first = first;
        self.op.clear();
        self.thread.clear();
        self.target.clear();
        self.location.clear();
        self.aux.clear();
        self.value.clear();
        self.known.clear();
        self.written.clear();
    }

    /// Room for `more` events, so that [`Events::push_plain`] does not grow the columns.
    pub fn reserve(&mut self, more: usize) {
        self.op.reserve(more);
        self.thread.reserve(more);
        self.target.reserve(more);
        self.location.reserve(more);
    }

    /// Adds an event that has neither aux nor value.
    #[inline(always)]
    pub fn push_plain(&mut self, thread: ThreadId, op: Op, target: u32, location: LocId) {
        self.op.push(op);
        self.thread.push(thread);
        self.target.push(target);
        self.location.push(location.0);
        if !self.aux.is_empty() {
            self.aux.push(0);
        }
        if !self.value.is_empty() {
            self.push_value(None);
        }
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        if event.aux != 0 && self.aux.is_empty() {
            self.aux.resize(self.len(), 0);
        }
        let first_value = event.value.is_some() && self.value.is_empty();
        if first_value {
            self.value.resize(self.len(), 0);
            self.known.resize(self.len().div_ceil(64), 0);
        }
        let keep_aux = event.aux != 0 || !self.aux.is_empty();
        let keep_value = first_value || !self.value.is_empty();
        self.op.push(event.op);
        self.thread.push(event.thread);
        self.target.push(event.target);
        self.location.push(event.location.0);
        if keep_aux {
            self.aux.push(event.aux);
        }
        if keep_value {
            self.push_value(event.value);
        }
        if let Some(written) = event.written {
            self.written.push((self.len() as u32 - 1, written));
        }
    }

    fn push_value(&mut self, value: Option<i64>) {
        let index = self.value.len();
        self.value.push(value.unwrap_or(0));
        if index.is_multiple_of(64) {
            self.known.push(0);
        }
        if value.is_some() {
            self.known[index / 64] |= 1 << (index % 64);
        }
    }

    /// Adds events that have neither aux nor value: `fill` appends equally many to each column.
    pub fn extend_with(&mut self, fill: impl FnOnce(Columns<'_>)) {
        let Events { op, thread, target, location, .. } = self;
        fill(Columns { op, thread, target, location });
        let n = self.op.len();
        assert!(self.thread.len() == n && self.target.len() == n && self.location.len() == n);
        if !self.aux.is_empty() {
            self.aux.resize(n, 0);
        }
        if !self.value.is_empty() {
            self.value.resize(n, 0);
            self.known.resize(n.div_ceil(64), 0);
        }
    }

    /// Adds the events of `other` that lie in `range`.
    pub fn extend_from(&mut self, other: &Events, range: std::ops::Range<usize>) {
        let from = self.len();
        self.extend_with(|columns| {
            columns.op.extend_from_slice(&other.op[range.clone()]);
            columns.thread.extend_from_slice(&other.thread[range.clone()]);
            columns.target.extend_from_slice(&other.target[range.clone()]);
            columns.location.extend_from(&other.location, range.clone());
        });
        if let Some(aux) = other.aux.get(range.clone())
            && aux.iter().any(|&a| a != 0)
        {
            self.aux_mut()[from..].copy_from_slice(aux);
        }
        if !other.value.is_empty() {
            for index in range.clone() {
                if let Some(value) = other.value(index) {
                    self.set_value(from + index - range.start, value);
                }
            }
        }
        let first = other.written.partition_point(|w| (w.0 as usize) < range.start);
        let inside = other.written[first..].iter().take_while(|w| (w.0 as usize) < range.end);
        self.written.extend(inside.map(|w| ((w.0 as usize - range.start + from) as u32, w.1)));
    }

    /// The aux column, made if there was none.
    pub fn aux_mut(&mut self) -> &mut [u32] {
        if self.aux.is_empty() {
            self.aux.resize(self.len(), 0);
        }
        &mut self.aux
    }

    /// Operations, values and the bits that say which values are known; the latter two made if there were none.
    pub fn values_mut(&mut self) -> (&[Op], &mut [i64], &mut [u64]) {
        if self.value.is_empty() {
            self.value.resize(self.op.len(), 0);
            self.known.resize(self.op.len().div_ceil(64), 0);
        }
        (&self.op, &mut self.value, &mut self.known)
    }

    /// Sets the aux column of an event that was added already.
    pub fn set_aux(&mut self, index: usize, aux: u32) {
        if self.aux.is_empty() {
            if aux == 0 {
                return;
            }
            self.aux.resize(self.len(), 0);
        }
        self.aux[index] = aux;
    }

    /// Makes an event that was added already do something else.
    pub fn set_action(&mut self, index: usize, action: Action) {
        let Event { op, target, aux, value, written, .. } = Event::of(self.thread[index], action);
        (self.op[index], self.target[index]) = (op, target);
        self.set_aux(index, aux);
        match value {
            Some(value) => self.set_value(index, value),
            None if self.value.is_empty() => {}
            None => {
                self.value[index] = 0;
                self.known[index / 64] &= !(1 << (index % 64));
            }
        }
        let at = self.written.binary_search_by_key(&(index as u32), |&(i, _)| i);
        match (at, written) {
            (Ok(at), Some(written)) => self.written[at].1 = written,
            (Ok(at), None) => drop(self.written.remove(at)),
            (Err(at), Some(written)) => self.written.insert(at, (index as u32, written)),
            (Err(_), None) => {}
        }
    }

    /// Sets the value of an event that was added already.
    pub fn set_value(&mut self, index: usize, value: i64) {
        if self.value.is_empty() {
            self.value.resize(self.len(), 0);
            self.known.resize(self.len().div_ceil(64), 0);
        }
        self.value[index] = value;
        self.known[index / 64] |= 1 << (index % 64);
    }

    /// Sets the value written by an rmw that was added already; in ascending order of events.
    pub fn set_written(&mut self, index: usize, value: i64) {
        debug_assert!(self.written.last().is_none_or(|&(last, _)| (last as usize) < index));
        self.written.push((index as u32, value));
    }

    /// Cuts the block down to its first `len` events.
    pub fn truncate(&mut self, len: usize) {
        self.op.truncate(len);
        self.thread.truncate(len);
        self.target.truncate(len);
        self.location.truncate(len);
        self.aux.truncate(len);
        if self.value.len() > len {
            self.value.truncate(len);
            self.known.truncate(len.div_ceil(64));
            if !len.is_multiple_of(64) {
                self.known[len / 64] &= (1 << (len % 64)) - 1;
            }
        }
        self.written.retain(|&(index, _)| (index as usize) < len);
    }

    /// The operations.
    #[inline(always)]
    pub fn ops(&self) -> &[Op] {
        &self.op
    }

    /// The threads.
    #[inline(always)]
    pub fn threads(&self) -> &[ThreadId] {
        &self.thread
    }

    /// The targets, each an id of the kind its operation asks for.
    #[inline(always)]
    pub fn targets(&self) -> &[u32] {
        &self.target
    }

    /// The location of one event.
    #[inline(always)]
    pub fn location(&self, index: usize) -> LocId {
        LocId(self.location.get(index))
    }

    /// The locations.
    pub fn location_column(&self) -> &Narrow {
        &self.location
    }

    /// The aux column; empty if no event needs it.
    pub fn aux_column(&self) -> &[u32] {
        &self.aux
    }

    /// Values written by rmw events: index in this block, value.
    pub fn written_column(&self) -> &[(u32, i64)] {
        &self.written
    }

    /// Whether any event carries a value.
    pub fn has_values(&self) -> bool {
        !self.value.is_empty() || !self.written.is_empty()
    }

    /// The aux of one event.
    #[inline]
    pub fn aux(&self, index: usize) -> u32 {
        self.aux.get(index).copied().unwrap_or(0)
    }

    /// The value of one event.
    #[inline]
    pub fn value(&self, index: usize) -> Option<i64> {
        let known = self.known.get(index / 64)? >> (index % 64) & 1 == 1;
        known.then(|| self.value[index])
    }

    /// The value written by an rmw.
    pub fn written(&self, index: usize) -> Option<i64> {
        let at = self.written.binary_search_by_key(&(index as u32), |&(i, _)| i).ok()?;
        Some(self.written[at].1)
    }

    /// What one event does. Reads fewer columns than [`Events::get`].
    #[inline]
    pub fn action(&self, index: usize) -> Action {
        let op = self.op[index];
        let event = Event {
            thread: self.thread[index],
            op,
            target: self.target[index],
            aux: self.aux(index),
            location: LocId::NONE,
            value: if op.takes_value() { self.value(index) } else { None },
            written: if op == Op::Rmw { self.written(index) } else { None },
        };
        event.action()
    }

    /// One event with all its columns.
    pub fn get(&self, index: usize) -> Event {
        let op = self.op[index];
        Event {
            thread: self.thread[index],
            op,
            target: self.target[index],
            aux: self.aux(index),
            location: self.location(index),
            value: self.value(index),
            written: if op == Op::Rmw { self.written(index) } else { None },
        }
    }

    /// The same without its values and its place in the program, for who only asks what it synchronises with.
    #[inline]
    pub fn without_values(&self, index: usize) -> Event {
        Event { aux: self.aux(index), ..Event::new(self.thread[index], self.op[index], self.target[index]) }
    }

    /// All events in order.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        (0..self.len()).map(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_appear_when_the_first_event_needs_them_and_survive_truncation() {
        let mut events = Events::new();
        let t = ThreadId(0);
        for i in 0..70 {
            events.push_plain(t, Op::Write, i, LocId(1));
        }
        assert!(!events.has_values() && events.aux_column().is_empty());
        events.push(Event { value: Some(-7), ..Event::new(t, Op::Read, 3) });
        events.push(Event { aux: 4, value: Some(1), written: Some(2), ..Event::new(t, Op::Rmw, 3) });
        events.push_plain(t, Op::Read, 9, LocId::NONE);
        assert_eq!(events.value(0), None);
        assert_eq!(events.value(70), Some(-7));
        assert_eq!(events.get(71).value_written(), Some(2));
        assert_eq!(events.get(71).value_read(), Some(1));
        assert_eq!((events.aux(70), events.aux(71), events.aux(72)), (0, 4, 0));
        assert_eq!(events.value(72), None);
        events.truncate(71);
        assert_eq!(events.value(70), Some(-7));
        assert_eq!(events.written_column(), &[]);
        events.push(Event { value: Some(5), ..Event::new(t, Op::Write, 3) });
        assert_eq!(events.value(71), Some(5));
    }

    #[test]
    fn an_event_that_does_something_else_is_as_if_it_had_always_done_so() {
        let (t, variable, order) = (ThreadId(0), VarId(3), MemoryOrder::Relaxed);
        let actions = [
            Action::Read { variable, value: Some(7), into: None },
            Action::Rmw { variable, order, read: Some(1), written: Some(2) },
            Action::Rmw { variable, order, read: None, written: Some(4) },
            Action::Wake { condition: CondId(2), by: Some(EventId(5)) },
            Action::Write { variable, value: None, of: None },
        ];
        for from in actions {
            for to in actions {
                let mut events = Events::new();
                actions.iter().for_each(|&action| events.push(Event::of(t, action)));
                events.push(Event::of(t, from));
                actions.iter().for_each(|&action| events.push(Event::of(t, action)));
                let mut always = Events::new();
                actions.iter().chain([&to]).chain(&actions).for_each(|&action| always.push(Event::of(t, action)));
                events.set_action(actions.len(), to);
                assert_eq!(events, always);
            }
        }
    }

    #[test]
    fn a_range_of_another_block_is_added_as_if_pushed_one_by_one() {
        let mut source = Events::new();
        for i in 0..300u32 {
            let mut event = Event::new(ThreadId(i % 3), if i % 5 == 0 { Op::Rmw } else { Op::Read }, i);
            event.aux = if i > 200 { i } else { 0 };
            event.value = (i > 100 && i % 2 == 0).then_some(i as i64);
            event.written = (event.op == Op::Rmw && i % 3 == 0).then_some(-(i as i64));
            source.push(event);
        }
        for (from, to) in [(0, 300), (0, 50), (50, 120), (130, 299), (7, 7)] {
            for before in [0, 1, 64, 150] {
                let (mut bulk, mut single) = (Events::new(), Events::new());
                for events in [&mut bulk, &mut single] {
                    (0..before).for_each(|i| events.push(source.get(i)));
                }
                bulk.extend_from(&source, from..to);
                (from..to).for_each(|i| single.push(source.get(i)));
                assert_eq!(bulk, single);
            }
        }
    }
}
