//! The tree of calls, and for each event which call it was made in.

use crate::beside::{kind, put, put_signed, put_text};
use crate::hash::BuildWordHasher;
use crate::symbols::{Pool, Symbols};
use std::collections::HashMap;

/// Most nodes of the tree; what is called beyond is taken for its caller.
const MOST: usize = 1 << 24;

/// Most places that are called from.
const MOST_FRAMES: usize = 1 << 22;

/// Entries of the cache of calls.
const RECENT: usize = 1 << 12;

/// Builds the tree and the blocks that describe it.
pub struct Calls {
    /// Caller and frame of each node; node 0 is the bottom.
    nodes: Vec<(u32, u32)>,
    children: HashMap<(u32, u64), u32, BuildWordHasher>,
    /// The last ones of them that were asked for: caller, where from, node.
    recent: Vec<(u32, u64, u32)>,
    /// Frame of each program counter.
    frames: HashMap<u64, u32, BuildWordHasher>,
    frame_texts: Vec<(u64, Vec<(u32, u32)>)>,
    strings: Pool,
    /// How much of it has been written.
    written: (usize, usize, usize),
    threads: Vec<Thread>,
    /// Where fibers are that do not run.
    fibers: HashMap<u64, u32, BuildWordHasher>,
    /// The thread that runs.
    current: usize,
    /// Steps that it has done and that have not been added to its state: each was one event, in the call of the one before.
    quiet: u64,
    /// Whether a step that is an event can be counted in `quiet`.
    settled: bool,
    /// The stretch of events that is being filled.
    first: u64,
    start: Vec<(u32, u64)>,
    calls: Vec<(u32, u32)>,
    steps: Vec<(u32, i64)>,
}

#[derive(Clone, Default)]
struct Thread {
    call: u32,
    steps: u64,
    /// Call and steps of its last event.
    told: (u32, u64),
}

impl Calls {
    /// No calls.
    pub fn new() -> Calls {
        Calls {
            nodes: vec![(0, 0)],
            children: HashMap::default(),
            recent: vec![(0, 0, 0); RECENT],
            frames: HashMap::default(),
            frame_texts: Vec::new(),
            strings: Pool::default(),
            written: (0, 0, 1),
            threads: vec![Thread::default()],
            fibers: HashMap::default(),
            current: 0,
            quiet: 0,
            settled: true,
            first: 0,
            start: Vec::new(),
            calls: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// What is known about the thread that runs.
    #[inline]
    fn thread(&mut self) -> &mut Thread {
        let state = &mut self.threads[self.current];
        state.steps = state.steps.wrapping_add(self.quiet);
        state.told.1 = state.told.1.wrapping_add(self.quiet);
        self.quiet = 0;
        state
    }

    /// Another thread runs, which has done so many steps.
    pub fn switch(&mut self, thread: usize, steps: u64) {
        self.thread();
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, Thread::default());
        }
        self.current = thread;
        self.threads[thread].steps = steps;
        self.settled = false;
    }

    /// Another thread goes on where it was.
    pub fn resume(&mut self, thread: usize) {
        self.thread();
        let steps = self.threads.get(thread).map_or(0, |state| state.steps);
        self.switch(thread, steps);
    }

    /// The call that the thread that runs is in.
    pub fn current(&self) -> u32 {
        self.threads[self.current].call
    }

    /// The thread calls a function; `pc` is where it will return to.
    pub fn enter(&mut self, pc: u64, symbols: &mut Symbols) {
        let caller = self.thread().call;
        self.settled = false;
        let mixed = ((caller as u64) << 40 ^ pc).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> (64 - RECENT.trailing_zeros())) as usize;
        let recent = self.recent[slot];
        if (recent.0, recent.1) == (caller, pc) {
            self.thread().call = recent.2;
            return;
        }
        let node = match self.children.get(&(caller, pc)) {
            Some(&node) => node,
            None if self.nodes.len() >= MOST || self.frames.len() >= MOST_FRAMES => {
                self.thread().call = caller;
                return;
            }
            None => {
                let frame = self.frame(pc, symbols);
                let node = self.nodes.len() as u32;
                self.nodes.push((caller, frame));
                self.children.insert((caller, pc), node);
                node
            }
        };
        self.recent[slot] = (caller, pc, node);
        self.thread().call = node;
    }

    /// It returns.
    pub fn leave(&mut self) {
        let call = self.thread().call;
        self.settled = false;
        self.thread().call = self.nodes[call as usize].0;
    }

    /// It leaves one fiber and goes on in another.
    pub fn swap(&mut self, from: u64, to: u64) {
        let call = self.thread().call;
        self.settled = false;
        self.fibers.insert(from, call);
        self.thread().call = self.fibers.get(&to).copied().unwrap_or(0);
    }

    fn frame(&mut self, pc: u64, symbols: &mut Symbols) -> u32 {
        if let Some(&frame) = self.frames.get(&pc) {
            return frame;
        }
        let texts = symbols.code(pc);
        let texts = texts.iter().map(|f| (self.strings.id(&f.function), self.strings.id(&f.place))).collect();
        let frame = self.frame_texts.len() as u32;
        self.frame_texts.push((pc, texts));
        self.frames.insert(pc, frame);
        frame
    }

    /// The thread does a step.
    pub fn step(&mut self) {
        let state = self.thread();
        state.steps = state.steps.wrapping_add(1);
        self.settled = false;
    }

    /// The thread does so many steps that are one event each, from the `first`-th of all on.
    #[inline(always)]
    pub fn steps_and_events(&mut self, first: usize, count: usize) {
        if self.settled {
            self.quiet += count as u64;
        } else if count > 0 {
            self.step();
            self.event(first);
            self.quiet += count as u64 - 1;
        }
    }

    /// An event of the thread, the `number`-th of all.
    #[inline(never)]
    pub fn event(&mut self, number: usize) {
        let state = self.thread();
        let (call, steps) = state.told;
        let (now, done) = (state.call, state.steps);
        state.told = (now, done);
        self.settled = true;
        let index = (number as u64 - self.first) as u32;
        if now != call {
            self.calls.push((index, now));
        }
        if done != steps.wrapping_add(1) {
            self.steps.push((index, (done as i64).wrapping_sub(steps as i64).wrapping_sub(1)));
        }
    }

    /// Begins a stretch with the given event.
    pub fn begin_stretch(&mut self, first: u64) {
        self.thread();
        self.first = first;
        self.start = self.threads.iter().map(|t| t.told).collect();
        self.calls.clear();
        self.steps.clear();
    }

    /// The block for the events since the last time.
    pub fn stretch(&mut self, out: &mut Vec<u8>) {
        out.push(kind::STRETCH);
        put(out, self.first);
        put(out, self.start.len() as u64);
        for &(call, steps) in &self.start {
            put(out, call as u64);
            put(out, steps);
        }
        put(out, self.calls.len() as u64);
        let mut last = 0;
        for &(index, call) in &self.calls {
            put(out, (index - last) as u64);
            put(out, call as u64);
            last = index;
        }
        put(out, self.steps.len() as u64);
        let mut last = 0;
        for &(index, more) in &self.steps {
            put(out, (index - last) as u64);
            put_signed(out, more);
            last = index;
        }
    }

    /// The block for the names that are new since the last time; false if there are none.
    pub fn names(&mut self, out: &mut Vec<u8>) -> bool {
        let (strings, frames, nodes) = self.written;
        self.written = (self.strings.all.len(), self.frame_texts.len(), self.nodes.len());
        if (strings, frames, nodes) == self.written {
            return false;
        }
        out.push(kind::NAMES);
        put(out, (self.strings.all.len() - strings) as u64);
        self.strings.all[strings..].iter().for_each(|text| put_text(out, text));
        put(out, (self.frame_texts.len() - frames) as u64);
        for (pc, texts) in &self.frame_texts[frames..] {
            put(out, *pc);
            put(out, texts.len() as u64);
            for &(function, place) in texts {
                put(out, function as u64);
                put(out, place as u64);
            }
        }
        put(out, (self.nodes.len() - nodes) as u64);
        for &(caller, frame) in &self.nodes[nodes..] {
            put(out, caller as u64);
            put(out, frame as u64);
        }
        true
    }
}
