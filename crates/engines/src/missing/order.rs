//! The order that missing methods force (docs/model.md, rule 3), as the predecessors of each event.
//!
//! Huang, Rajagopalan: Precise and Maximal Race Detection from Incomplete Traces (OOPSLA 2016), Algorithm 2, lines 7
//! to 20, and Algorithm 3.
//!
//! Guarantee: the transitive closure of these edges and thread order is exactly rule 3. Deviation from the paper: it
//! puts the events of every two calls that could reach something in common in a row, which is quadratic in the calls. Here an event gets an edge
//! only from the last event of each thread that it must follow. And two accesses of memory that an open call could
//! reach keep their order as well: the code that was not observed may have run between them.
//!
//! Cost: a call looks at what it could reach twice, when it begins and when it ends. Every other event inside looks at the
//! threads whose open calls overlap with its own; a touch at the open calls that could reach what it touches.

use crate::missing::objects::{Missing, Objects};
use snag_model::{Action, EventId, Op, ReachId, SparseVector, Trace};

/// What must come before each event because methods are missing.
pub struct MissingOrder {
    /// Where the predecessors of each event end.
    ends: Vec<u32>,
    /// At most one event of each other thread, and none that an earlier event of the same thread has already.
    before: Vec<EventId>,
}

impl MissingOrder {
    /// The order of a trace, or nothing if no method is missing.
    pub fn of(trace: &Trace, missing: Missing) -> Option<MissingOrder> {
        if !trace.events.ops().contains(&Op::MethodBegin) {
            return None;
        }
        let objects = Objects::of(trace, missing);
        let mut walk = Walk::new(trace, &objects);
        let mut order = MissingOrder { ends: Vec::with_capacity(trace.len()), before: Vec::new() };
        for index in 0..trace.len() {
            walk.event(index);
            walk.take(trace.events.threads()[index].index(), &mut order.before);
            order.ends.push(order.before.len() as u32);
        }
        Some(order)
    }

    /// What comes before an event.
    #[inline]
    pub fn before(&self, index: usize) -> &[EventId] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.before[start as usize..self.ends[index] as usize]
    }

    /// All edges' first events.
    pub fn sources(&self) -> &[EventId] {
        &self.before
    }
}

/// 1 + an event, or 0.
type After = u32;

/// The trace as far as it was followed. Everything is indexed by threads, objects and open calls.
struct Walk<'a> {
    trace: &'a Trace,
    objects: &'a Objects,
    /// Of each object the open calls that could reach it.
    open: Vec<Vec<u32>>,
    /// Of each object the last end of a call that could reach it, the last touch while one was open, and the last
    /// touch of each thread since the last call.
    ended: Vec<(u32, After)>,
    during: Vec<(u32, After)>,
    quiet: Vec<Vec<(u32, After)>>,
    calls: Vec<Call>,
    free: Vec<u32>,
    /// Open calls of each thread.
    stacks: Vec<Vec<u32>>,
    /// Last event of each thread.
    latest: Vec<After>,
    /// For each thread, the others with open calls that share an object with one of its own, and how many of these.
    overlaps: Vec<Vec<(u32, u32)>>,
    /// For each thread, what its next event comes after, of each other thread where there is something.
    pending: Vec<Vec<(u32, After)>>,
    /// For each thread, what its events so far come after by an edge, of each other thread.
    known: Vec<SparseVector>,
    /// What the event at hand comes after, of each thread, and the threads of which there is something.
    needed: Vec<After>,
    some: Vec<u32>,
}

struct Call {
    thread: u32,
    reach: ReachId,
    /// The last touch from outside of anything that it could reach.
    touched: (u32, After),
}

impl<'a> Walk<'a> {
    fn new(trace: &'a Trace, objects: &'a Objects) -> Walk<'a> {
        let (width, count) = (trace.tables.thread_count(), objects.count());
        Walk {
            trace,
            objects,
            open: vec![Vec::new(); count],
            ended: vec![(0, 0); count],
            during: vec![(0, 0); count],
            quiet: vec![Vec::new(); count],
            calls: Vec::new(),
            free: Vec::new(),
            stacks: vec![Vec::new(); width],
            latest: vec![0; width],
            overlaps: vec![Vec::new(); width],
            pending: vec![Vec::new(); width],
            known: vec![SparseVector::default(); width],
            needed: vec![0; width],
            some: Vec::new(),
        }
    }

    fn event(&mut self, index: usize) {
        let objects = self.objects;
        let event = self.trace.events.get(index);
        let (thread, now) = (event.thread.0, index as After + 1);
        if let Action::MethodBegin { reach, .. } = event.action() {
            self.begin(thread, reach);
        }
        if !self.stacks[thread as usize].is_empty() {
            self.inside(thread as usize);
        }
        objects.touched(EventId::new(index), &event, |object| self.touch(thread, now, object as usize));
        if event.op == Op::MethodEnd {
            self.end(thread, now);
        }
        self.latest[thread as usize] = now;
    }

    #[inline]
    fn need(&mut self, (thread, after): (u32, After)) {
        let needed = &mut self.needed[thread as usize];
        if after > *needed {
            if *needed == 0 {
                self.some.push(thread);
            }
            *needed = after;
        }
    }

    /// Hands over what the event at hand comes after, as far as its thread did not come after it before.
    fn take(&mut self, own: usize, into: &mut Vec<EventId>) {
        for thread in self.some.drain(..) {
            let after = std::mem::take(&mut self.needed[thread as usize]);
            if thread as usize != own && self.known[own].raise(thread as usize, after) {
                into.push(EventId(after - 1));
            }
        }
    }

    fn begin(&mut self, thread: u32, reach: ReachId) {
        let call = Call { thread, reach, touched: (0, 0) };
        let slot = self.free.pop().unwrap_or(self.calls.len() as u32);
        match self.calls.get_mut(slot as usize) {
            Some(free) => *free = call,
            None => self.calls.push(call),
        }
        self.stacks[thread as usize].push(slot);
        let objects = self.objects;
        for &object in objects.reached(reach) {
            let object = object as usize;
            self.need(self.ended[object]);
            self.need(self.during[object]);
            if !self.quiet[object].is_empty() {
                let mut quiet = std::mem::take(&mut self.quiet[object]);
                quiet.drain(..).for_each(|touch| self.need(touch));
                self.quiet[object] = quiet;
            }
            for &other in &self.open[object] {
                let other = self.calls[other as usize].thread;
                for (one, other) in [(thread, other), (other, thread)] {
                    *entry(&mut self.overlaps[one as usize], other) += 1;
                }
            }
            self.open[object].push(slot);
        }
    }

    /// Any event of a thread that is inside a call.
    fn inside(&mut self, thread: usize) {
        for at in 0..self.overlaps[thread].len() {
            let other = self.overlaps[thread][at].0;
            self.need((other, self.latest[other as usize]));
        }
        let mut pending = std::mem::take(&mut self.pending[thread]);
        pending.drain(..).for_each(|after| self.need(after));
        self.pending[thread] = pending;
    }

    fn touch(&mut self, thread: u32, now: After, object: usize) {
        self.need(self.ended[object]);
        if self.open[object].is_empty() {
            let quiet = &mut self.quiet[object];
            return match quiet.iter_mut().find(|touch| touch.0 == thread) {
                Some(touch) => touch.1 = now,
                None => quiet.push((thread, now)),
            };
        }
        for at in 0..self.open[object].len() {
            let slot = self.open[object][at] as usize;
            let other = self.calls[slot].thread;
            if other != thread {
                self.need((other, self.latest[other as usize]));
                self.need(self.calls[slot].touched);
                self.calls[slot].touched = (thread, now);
                *entry(&mut self.pending[other as usize], thread) = now;
                self.during[object] = (thread, now);
            }
        }
    }

    fn end(&mut self, thread: u32, now: After) {
        let slot = self.stacks[thread as usize].pop().expect("calls nest");
        let objects = self.objects;
        for &object in objects.reached(self.calls[slot as usize].reach) {
            let object = object as usize;
            self.ended[object] = (thread, now);
            let open = &mut self.open[object];
            let at = open.iter().position(|&other| other == slot).expect("it was opened");
            open.swap_remove(at);
            for &other in &self.open[object] {
                let other = self.calls[other as usize].thread;
                for (one, other) in [(thread, other), (other, thread)] {
                    *entry(&mut self.overlaps[one as usize], other) -= 1;
                    self.overlaps[one as usize].retain(|overlap| overlap.1 > 0);
                }
                *entry(&mut self.pending[other as usize], thread) = now;
            }
        }
        self.free.push(slot);
    }
}

/// What a short list has for a thread; 0 if nothing yet.
fn entry(list: &mut Vec<(u32, u32)>, thread: u32) -> &mut u32 {
    let at = list.iter().position(|entry| entry.0 == thread).unwrap_or_else(|| {
        list.push((thread, 0));
        list.len() - 1
    });
    &mut list[at].1
}
