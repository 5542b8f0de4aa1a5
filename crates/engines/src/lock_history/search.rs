//! `do_search` of the paper (Table III), iterative and incremental.
//!
//! Paper: Ganai, *Efficient Data Race Prediction with Incremental Reasoning on Time-Stamped Lock History* (ASE 2013).
//!
//! Guarantee: from a start pair that can be reached, [`Search::reaches`] says yes iff the two threads alone can go on
//! to the target pair, whatever was asked before, under data abstraction. Locks may be nested, non-nested,
//! re-entrant, and reader/writer locks.
//!
//! Deviation: RC4 and RC5 ask whether the other thread touches the lock at all, not only whether it releases it: that
//! is what Table II and Figure 6 of the paper show. RC6 and RC7 ask for an exclusive lock. What is kept
//! for later searches is in the [agenda](crate::lock_history::agenda); in addition a target may lie behind earlier ones in one
//! of the threads, which the paper's scheme does not allow for (`tests/figure1.rs` and `tests/theorems.rs`).
//!
//! Cost: one call for each edge of the lockset graph that is walked, each once per search, however many targets
//! there are; a call takes some tens of nanoseconds, and a logarithm of the history for RC4 to RC7.

use crate::lock_history::agenda::{Agenda, Pair, Side, Until};
use crate::lock_history::histories::{History, known};
use crate::lock_history::sets::{Mode, Sets};
use crate::lock_history::visited::{Moves, NodeId, Visited};
use snag_model::LockId;

/// The checks of Table III by their names there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Check {
    /// Terminal: the target.
    Tc,
    /// Happens-before: the step of the first thread must come first.
    Hb1,
    /// Happens-before: the step of the second thread must come first.
    Hb2,
    /// Deadlock: each waits for the other.
    Lcc1,
    /// Stall: one waits for a lock that the other holds to the end.
    Lcc2,
    /// Strategy II: a third thread stands in the way.
    Strategy2,
    /// Lock consistency: only the second thread can go on.
    Lcc3,
    /// Lock consistency: only the first thread can go on.
    Lcc4,
    /// Lock against unlock: unlock first.
    Rc1,
    /// Unlock against lock: unlock first.
    Rc2,
    /// Unlock against unlock: both.
    Rc3,
    /// Lock against lock, which the second thread never touches.
    Rc4,
    /// Lock against lock, which the first thread never touches.
    Rc5,
    /// The first thread never releases the lock again: the second goes first.
    Rc6,
    /// The second thread never releases the lock again: the first goes first.
    Rc7,
    /// No pruning.
    Default,
}

const A: Moves = 1;
const B: Moves = 2;
/// Both at once, which is not the same as both one after the other.
const BOTH: Moves = 4;

/// What third threads do while two go on: they stay where they are.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// Events from this one on have not happened to them.
    pub at: u32,
    /// The locks they hold.
    pub locks: Vec<(LockId, Mode)>,
}

/// What a search looks at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The histories of both threads.
    pub histories: [&'a History; 2],
    /// The numbers of both threads.
    pub threads: [usize; 2],
    /// The locksets.
    pub sets: &'a Sets,
    /// Strategy II: the other threads.
    pub others: Option<&'a Others>,
}

impl View<'_> {
    /// Whether a stamp needs more of third threads than they have done.
    pub fn waits_for_others(&self, stamp: &[u32]) -> bool {
        let Some(others) = self.others else { return false };
        stamp.iter().enumerate().any(|(thread, &time)| time > others.at && !self.threads.contains(&thread))
    }

    /// Whether a step can never be taken because of third threads.
    fn is_barred(&self, side: usize, place: u32) -> bool {
        let Some(others) = self.others else { return false };
        let step = self.histories[side].step(place, self.sets);
        let locked = others.locks.iter().any(|&(lock, mode)| lock == step.lock && mode.excludes(step.to));
        step.is_lock() && locked || self.waits_for_others(self.histories[side].stamp(place))
    }

    /// Whether a step before the target can never be taken because of third threads. Those before `free_until` are known not to be
    /// such steps.
    pub fn is_barred_before(&self, target: Pair, free_until: &mut Pair) -> bool {
        self.others.is_some()
            && [0, 1].into_iter().any(|side| {
                while free_until[side] < target[side] && !self.is_barred(side, free_until[side]) {
                    free_until[side] += 1;
                }
                free_until[side] < target[side]
            })
    }

    /// Whether the thread of `side` waits at its place for a lock that the other has.
    fn is_disabled(&self, side: usize, pair: Pair) -> bool {
        let other = self.histories[1 - side].held(pair[1 - side], self.sets);
        self.histories[side].step(pair[side], self.sets).waits_for(self.sets, other)
    }

    /// Whether the step of `side` must come before that of the other thread.
    fn precedes(&self, side: usize, pair: Pair) -> bool {
        let event = self.histories[side].event(pair[side]);
        known(self.histories[1 - side].stamp(pair[1 - side]), self.threads[side]) > event.0
    }
}

/// What searches did: the columns of the paper's Table VI, and more.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Questions asked.
    pub queries: u64,
    /// Of these, answered with yes.
    pub reachable: u64,
    /// Recursive calls: edges of the lockset graph that were walked. The joint step of RC3 is not one.
    pub calls: u64,
    /// Calls that a search without any pruning would make: all edges of the graph, for each question.
    pub potential: u64,
    /// How often both branches were taken.
    pub both: u64,
    /// How often one was left out by LCC3 or LCC4.
    pub lcc: u64,
    /// How often one was left out by RC1 to RC7.
    pub rc: u64,
}

impl std::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.queries += other.queries;
        self.reachable += other.reachable;
        self.calls += other.calls;
        self.potential += other.potential;
        self.both += other.both;
        self.lcc += other.lcc;
        self.rc += other.rc;
    }
}

/// The target was at its place of the first thread, or of the second.
const AT_END: [u8; 2] = [1, 2];
/// It was beyond the target in the first thread, or in the second.
const BEYOND: [u8; 2] = [4, 8];
/// A check held that may not hold for other targets.
const RC4: u8 = 16;
const RC5: u8 = 32;
const RC6: u8 = 64;
const RC7: u8 = 128;

/// A check that was applied to a pair, for those who want to see them all.
pub type Visit = (Pair, Check);

/// All searches from one start pair.
#[derive(Clone)]
pub struct Search {
    start: Pair,
    visited: Visited,
    agenda: Agenda,
    /// Edges still to be walked: from where, and how.
    stack: Vec<(NodeId, Moves)>,
    woken: Vec<Pair>,
    /// Pairs at which both threads wait for each other.
    deadlocks: Vec<Pair>,
    statistics: Statistics,
}

impl Search {
    /// Searches from a pair that can be reached.
    pub fn new(start: Pair) -> Search {
        Search {
            start,
            visited: Visited::from(start),
            agenda: Agenda::default(),
            stack: Vec::new(),
            woken: Vec::new(),
            deadlocks: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Where the searches start.
    pub fn start(&self) -> Pair {
        self.start
    }

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Bytes, about.
    pub fn memory(&self) -> usize {
        self.visited.memory() + self.agenda.memory()
    }

    /// Pairs met so far at which the two threads wait for each other.
    pub fn deadlocks(&self) -> &[Pair] {
        &self.deadlocks
    }

    /// The states in which a thread waits for a lock that it will never get: those of [`Search::deadlocks`],
    /// and those from which the other thread goes there while the one waits all along.
    pub fn deadlock_states(&self, view: &View) -> Vec<Pair> {
        let mut states = Vec::new();
        for &deadlock in &self.deadlocks {
            states.push(deadlock);
            for side in [0, 1] {
                let mut pair = deadlock;
                while pair[1 - side] > self.start[1 - side] {
                    pair[1 - side] -= 1;
                    if self.visited.find(pair).is_none() || !view.is_disabled(side, pair) {
                        break;
                    }
                    states.push(pair);
                }
            }
        }
        states.sort_unstable();
        states.dedup();
        states
    }

    /// Whether the two threads can be at the target at the same time. The target is not before the start.
    pub fn reaches(&mut self, view: &View, target: Pair) -> bool {
        self.run(view, target, false, &mut |_| {})
    }

    /// The same; tells which check decided at which pair.
    pub fn watch(&mut self, view: &View, target: Pair, seen: &mut dyn FnMut(Visit)) -> bool {
        self.run(view, target, false, seen)
    }

    /// The same, but goes on until nothing is left to be visited.
    pub fn exhaust(&mut self, view: &View, target: Pair) -> bool {
        self.run(view, target, true, &mut |_| {})
    }

    fn run(&mut self, view: &View, target: Pair, all: bool, seen: &mut dyn FnMut(Visit)) -> bool {
        debug_assert!(target[0] >= self.start[0] && target[1] >= self.start[1]);
        self.statistics.queries += 1;
        let (m, n) = ((target[0] - self.start[0]) as u64, (target[1] - self.start[1]) as u64);
        self.statistics.potential += m * (n + 1) + n * (m + 1);
        let reached = (!all && self.visited.find(target).is_some()) || self.walk(view, target, all, seen);
        self.statistics.reachable += reached as u64;
        reached
    }

    fn walk(&mut self, view: &View, target: Pair, all: bool, seen: &mut dyn FnMut(Visit)) -> bool {
        debug_assert!(self.stack.is_empty());
        if self.visited.is_empty() {
            let start = self.visited.add(self.start, 0);
            if self.look(view, start, target, seen) && !all {
                return true;
            }
        } else {
            let (mut woken, mut inner) = (std::mem::take(&mut self.woken), Vec::new());
            self.agenda.wake(target, view.histories, view.sets, &mut woken, &mut inner);
            for &pair in &woken {
                let node = self.was_visited(pair);
                self.visited.node_mut(node).reasons = 0;
            }
            woken.extend([0, 1].into_iter().filter_map(|side| self.edge(side, target)));
            woken.sort_unstable();
            woken.dedup();
            for pair in woken.drain(..) {
                self.look(view, self.was_visited(pair), target, seen);
            }
            for node in inner.into_iter().map(|pair| self.was_visited(pair)).collect::<Vec<_>>() {
                self.push(node, B);
                self.push(node, A);
            }
            self.woken = woken;
        }
        let mut reached = false;
        while let Some((from, by)) = self.stack.pop() {
            let node = self.visited.node_mut(from);
            if node.made & by != 0 {
                continue;
            }
            node.made |= by;
            let pair = match by {
                A => [node.pair[0] + 1, node.pair[1]],
                B => [node.pair[0], node.pair[1] + 1],
                _ => [node.pair[0] + 1, node.pair[1] + 1],
            };
            self.statistics.calls += (by != BOTH) as u64;
            // VC: visited before.
            if self.visited.find(pair).is_none() {
                let to = self.visited.add(pair, by);
                reached |= self.look(view, to, target, seen);
                if reached && !all {
                    break;
                }
            }
        }
        // What was not walked because the target was found is for the next one.
        while let Some((from, _)) = self.stack.pop() {
            self.leave(from, BEYOND[0], [Some(Until::Reaches(Side::A, self.visited.node(from).pair[0]))]);
        }
        reached
    }

    fn was_visited(&self, pair: Pair) -> NodeId {
        self.visited.find(pair).expect("it was visited")
    }

    /// The last visited pair at the target's place of one thread and before it in the other.
    fn edge(&self, side: usize, target: Pair) -> Option<Pair> {
        self.visited.edge(side, target).map(|node| self.visited.node(node).pair)
    }

    /// Puts a visited pair on the agenda, unless it is there for the same reason.
    fn leave<const N: usize>(&mut self, node: NodeId, reason: u8, until: [Option<Until>; N]) {
        let node = self.visited.node_mut(node);
        if node.reasons & reason == 0 {
            node.reasons |= reason;
            let pair = node.pair;
            until.into_iter().flatten().for_each(|until| self.agenda.add(pair, until));
        }
    }

    /// Applies the checks to a visited pair, in the order of Table III: true at the target, otherwise puts the calls
    /// to be made on the stack.
    fn look(&mut self, view: &View, node: NodeId, target: Pair, seen: &mut dyn FnMut(Visit)) -> bool {
        let pair @ [a, b] = self.visited.node(node).pair;
        // Beyond the target there is nothing to find for this one.
        if a > target[0] {
            self.leave(node, BEYOND[0], [Some(Until::Reaches(Side::A, a))]);
            return false;
        }
        if b > target[1] {
            self.leave(node, BEYOND[1], [Some(Until::Reaches(Side::B, b))]);
            return false;
        }
        let at_end = [a == target[0], b == target[1]];
        if at_end[0] {
            self.leave(node, AT_END[0], [Some(Until::Reaches(Side::A, a + 1))]);
        }
        if at_end[1] {
            self.leave(node, AT_END[1], [Some(Until::Reaches(Side::B, b + 1))]);
        }
        let (check, moves) = self.check(view, node, target, at_end);
        seen((pair, check));
        match check {
            Check::Tc => return true,
            Check::Lcc1 if !self.deadlocks.contains(&pair) => self.deadlocks.push(pair),
            Check::Lcc3 | Check::Lcc4 => self.statistics.lcc += 1,
            Check::Default => self.statistics.both += 1,
            check if check >= Check::Rc1 => self.statistics.rc += 1,
            _ => {}
        }
        for by in [BOTH, B, A] {
            if moves & by != 0 {
                self.push(node, by);
            }
        }
        false
    }

    fn push(&mut self, node: NodeId, by: Moves) {
        if self.visited.node(node).made & by == 0 {
            self.stack.push((node, by));
        }
    }

    /// The first check that holds, and what it leaves to be done.
    fn check(&mut self, view: &View, node: NodeId, target: Pair, at_end: [bool; 2]) -> (Check, Moves) {
        let pair = self.visited.node(node).pair;
        let [at_end_a, at_end_b] = at_end;
        if at_end_a && at_end_b {
            return (Check::Tc, 0);
        }
        let disabled = [!at_end_a && view.is_disabled(0, pair), !at_end_b && view.is_disabled(1, pair)];
        let barred = |side: usize| view.is_barred(side, pair[side]);
        if !at_end_a && !at_end_b {
            // The paper goes on without a look at the locks; but a step that must come first may be impossible, and
            // then both threads are stuck.
            if view.precedes(0, pair) {
                return (Check::Hb1, if disabled[0] || barred(0) { 0 } else { A });
            }
            if view.precedes(1, pair) {
                return (Check::Hb2, if disabled[1] || barred(1) { 0 } else { B });
            }
        }
        if disabled == [true, true] {
            return (Check::Lcc1, 0);
        }
        if at_end_a && disabled[1] || at_end_b && disabled[0] {
            return (Check::Lcc2, 0);
        }
        if !at_end_a && barred(0) || !at_end_b && barred(1) {
            return (Check::Strategy2, 0);
        }
        if at_end_a || disabled[0] {
            return (Check::Lcc3, B);
        }
        if at_end_b || disabled[1] {
            return (Check::Lcc4, A);
        }
        let [a, b] = [0, 1].map(|side| view.histories[side].step(pair[side], view.sets));
        match (a.is_lock(), b.is_lock()) {
            (true, false) => (Check::Rc1, B),
            (false, true) => (Check::Rc2, A),
            (false, false) => (Check::Rc3, BOTH),
            (true, true) => self.locks(view, node, target),
        }
    }

    /// RC4 to RC7 and the default, for two locks that can both be taken.
    fn locks(&mut self, view: &View, node: NodeId, target: Pair) -> (Check, Moves) {
        let pair = self.visited.node(node).pair;
        let [ha, hb] = view.histories;
        let [a, b] = [ha.step(pair[0], view.sets), hb.step(pair[1], view.sets)];
        let differ = a.lock != b.lock;
        // The first step of each thread on the lock that the other one takes, before its target.
        let touch_b = hb.next_touch(a.lock, pair[1]).filter(|&place| place < target[1]);
        if differ && touch_b.is_none() {
            self.leave(node, RC4, [Some(Until::Touches(Side::B, a.lock, pair[1]))]);
            return (Check::Rc4, A);
        }
        let touch_a = ha.next_touch(b.lock, pair[0]).filter(|&place| place < target[0]);
        // RC4 would hold for a target that is not behind this step.
        let inner = touch_b.filter(|_| differ).map(|place| Until::Within(Side::B, pair[1] + 1, place));
        if differ && touch_a.is_none() {
            self.leave(node, RC5, [Some(Until::Touches(Side::A, b.lock, pair[0])), inner]);
            return (Check::Rc5, B);
        }
        let unlock_a = ha.next_unlock(a.lock, pair[0] + 1, view.sets).filter(|&place| place < target[0]);
        if a.to == Mode::Exclusive && unlock_a.is_none() {
            self.leave(node, RC6, [Some(Until::Unlocks(Side::A, a.lock, pair[0] + 1)), inner]);
            return (Check::Rc6, B);
        }
        let unlock_b = hb.next_unlock(b.lock, pair[1] + 1, view.sets).filter(|&place| place < target[1]);
        if b.to == Mode::Exclusive && unlock_b.is_none() {
            // RC5 or RC6 would hold for a target that is not behind these steps.
            let last = touch_a.filter(|_| differ).max(unlock_a);
            let inner = last.map(|last| Until::Within(Side::A, pair[0] + 1, last));
            self.leave(node, RC7, [Some(Until::Unlocks(Side::B, b.lock, pair[1] + 1)), inner]);
            return (Check::Rc7, A);
        }
        (Check::Default, A | B)
    }

    /// The steps that lead from the start to a visited pair: for each the side that takes it.
    pub fn path(&self, mut pair: Pair) -> Option<Vec<Side>> {
        let mut path = Vec::new();
        loop {
            let by = self.visited.node(self.visited.find(pair)?).by;
            match by {
                0 => break,
                A => path.push(Side::A),
                B => path.push(Side::B),
                _ => path.extend([Side::A, Side::B]),
            }
            let steps = if by == BOTH { &path[path.len() - 2..] } else { &path[path.len() - 1..] };
            for &side in steps {
                pair[side as usize] -= 1;
            }
        }
        path.reverse();
        Some(path)
    }
}

/// All edges of the lockset graph between two pairs: the calls of a search that prunes nothing. Walks them.
pub fn unpruned_calls(start: Pair, target: Pair) -> u64 {
    let (mut calls, mut open) = (0, vec![start]);
    let mut seen = std::collections::HashSet::from([start]);
    while let Some(pair) = open.pop() {
        for side in [0, 1] {
            if pair[side] < target[side] {
                calls += 1;
                let mut next = pair;
                next[side] += 1;
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    calls
}
