//! Figure 1 of the paper, with its figures: Table II's sequence, 8, 21, 71 and 446 calls.

use snag_engines::lock_history::agenda::Pair;
use snag_engines::lock_history::{Check, Observer, Search, Strategy, View, unpruned_calls};
use snag_model::events::Event;
use snag_model::{EventId, LockId, Op, Tables, ThreadId};

/// The figure as it may have been observed. `b`'s re-entrant acquire of L1 is not in the history. The wait
/// of the figure gives no lock up, so M, which stands for its lock, is not held.
const FIGURE: &str = "
    b acquire L1, b acquire L3, b release L3, b wait-begin M
    a acquire L3, a acquire L2, a notify
    b wake 6, b wait-end M, b acquire L1, b release L1
    a release L3, b release L1, a acquire L1, a release L2
    b acquire L3, b acquire L2, b acquire L0, b release L3, b release L0, b read X, b release L2, b write X
    a acquire L2, a release L1, a acquire L0, a release L2, a write X, a acquire L3, a write X";

struct Figure {
    observer: Observer,
    /// The accesses: event, and place in its thread.
    accesses: Vec<(EventId, u32)>,
}

const THREADS: [ThreadId; 2] = [ThreadId(0), ThreadId(1)];

fn figure(strategy: Strategy) -> Figure {
    let (mut observer, mut accesses) = (Observer::new(strategy, None), Vec::new());
    for (number, text) in FIGURE.split([',', '\n']).map(str::trim).filter(|text| !text.is_empty()).enumerate() {
        let words: Vec<&str> = text.split(' ').collect();
        let op = Op::ALL.into_iter().find(|op| op.word() == words[1]).unwrap();
        let thread = THREADS[(words[0] == "b") as usize];
        let lock = |name: &str| if name == "M" { 4 } else { name[1..].parse().unwrap_or(0) };
        let mut event = Event::new(thread, op, 0);
        match op {
            Op::Acquire | Op::Release => event.target = lock(words[2]),
            Op::WaitBegin | Op::WaitEnd => event.aux = lock(words[2]),
            Op::Wake => event.aux = 1 + words[2].parse::<u32>().unwrap(),
            _ => {}
        }
        let number = EventId::new(number);
        observer.observe(number, &event, &Tables::default());
        if op.is_access() {
            accesses.push((number, observer.thread(thread).place()));
        }
    }
    THREADS.iter().for_each(|&thread| observer.list_steps(thread, 0));
    Figure { observer, accesses }
}

impl Figure {
    fn view(&self) -> View<'_> {
        let histories = THREADS.map(|thread| &self.observer.thread(thread).history);
        View { histories, threads: [0, 1], sets: self.observer.sets(), others: None }
    }

    /// The start pair for the last accesses of both threads.
    fn start(&self, strategy: Strategy) -> Pair {
        let last = |thread: ThreadId| self.observer.thread(thread).history.event(0).max(EventId(30));
        let events = THREADS.map(last);
        match strategy {
            Strategy::One => self.observer.start_pair(THREADS, events),
            Strategy::Two => {
                let snapshot = self.observer.snapshot_before(events).unwrap();
                THREADS.map(|thread| self.observer.thread(thread).history.place_before(snapshot).unwrap())
            }
        }
    }
}

/// The pair (a*i*, b*j*) of the figure, which counts from 1.
fn pair(i: u32, j: u32) -> Pair {
    [i - 1, j - 1]
}

const TARGETS: [(u32, u32); 4] = [(10, 10), (10, 11), (11, 10), (11, 11)];

#[test]
fn the_accesses_and_locksets_are_those_of_the_figure() {
    let figure = figure(Strategy::One);
    let places: Vec<u32> = figure.accesses.iter().map(|access| access.1 + 1).collect();
    assert_eq!(places, [10, 11, 10, 11]);
    let held = |thread: usize, place: u32| {
        let view = figure.view();
        view.sets
            .locks(view.histories[thread].held(place - 1, view.sets))
            .iter()
            .map(|held| held.0)
            .collect::<Vec<LockId>>()
    };
    assert_eq!(held(0, 3), [LockId(2), LockId(3)]);
    assert_eq!(held(0, 11), [LockId(0), LockId(3)]);
    assert_eq!(held(1, 8), [LockId(0), LockId(2), LockId(3)]);
    assert_eq!(held(1, 10), [LockId(2)]);
    assert_eq!([0, 1].map(|thread| figure.view().histories[thread].end()), [10, 10]);
}

#[test]
fn the_search_starts_at_a3_b4_with_either_strategy() {
    for strategy in [Strategy::One, Strategy::Two] {
        assert_eq!(figure(strategy).start(strategy), pair(3, 4));
    }
}

#[test]
fn a10_b10_is_unreachable_in_eight_calls_as_in_table_ii() {
    let figure = figure(Strategy::One);
    let mut search = Search::new(pair(3, 4));
    let mut table = Vec::new();
    let reached = search.watch(&figure.view(), pair(10, 10), &mut |([a, b], check)| table.push((a + 1, b + 1, check)));
    assert!(!reached);
    assert_eq!(
        table,
        [
            (3, 4, Check::Rc3),
            (4, 5, Check::Rc4),
            (5, 5, Check::Rc2),
            (6, 5, Check::Rc5),
            (6, 6, Check::Rc7),
            (7, 6, Check::Lcc4),
            (8, 6, Check::Lcc4),
            (9, 6, Check::Lcc4),
            (10, 6, Check::Lcc3),
            (10, 7, Check::Lcc2),
        ]
    );
    assert_eq!(search.statistics().calls, 8);
}

#[test]
fn the_other_three_targets_take_thirteen_more_calls() {
    let figure = figure(Strategy::One);
    // In any order.
    for order in [[0, 1, 2, 3], [0, 3, 2, 1], [0, 2, 1, 3], [0, 1, 3, 2], [0, 2, 3, 1], [0, 3, 1, 2]] {
        let mut search = Search::new(pair(3, 4));
        let mut calls = Vec::new();
        for target in order.map(|number| TARGETS[number]) {
            let reached = search.reaches(&figure.view(), pair(target.0, target.1));
            assert_eq!(reached, matches!(target, (10, 11) | (11, 11)), "{target:?}");
            calls.push(search.statistics().calls);
        }
        assert_eq!((calls[0], calls[3]), (8, 21), "{order:?}");
        assert_eq!(search.deadlock_states(&figure.view()), [pair(10, 6), pair(10, 7)]);
    }
}

#[test]
fn without_incrementality_it_is_71_calls() {
    let figure = figure(Strategy::One);
    // The first question is asked when the threads are at (a10, b10), the others when they are at (a11, b11); the
    // paper counts for each the whole search of the histories that are known then.
    let mut calls = 0;
    for ends in [pair(10, 10), pair(11, 11), pair(11, 11), pair(11, 11)] {
        let mut search = Search::new(pair(3, 4));
        search.exhaust(&figure.view(), ends);
        calls += search.statistics().calls;
    }
    assert_eq!(calls, 71);
}

#[test]
fn without_incrementality_and_with_histories_that_end_at_the_target_it_is_57_calls() {
    let figure = figure(Strategy::One);
    let calls = TARGETS.map(|(i, j)| {
        let mut search = Search::new(pair(3, 4));
        search.reaches(&figure.view(), pair(i, j));
        search.statistics().calls
    });
    assert_eq!(calls, [8, 17, 11, 21]);
}

#[test]
fn without_pruning_it_is_446_calls() {
    let calls = TARGETS.map(|(i, j)| unpruned_calls(pair(3, 4), pair(i, j)));
    assert_eq!(calls, [97, 112, 110, 127]);
    assert_eq!(calls.iter().sum::<u64>(), 446);
    let figure = figure(Strategy::One);
    let mut search = Search::new(pair(3, 4));
    for (i, j) in TARGETS {
        search.reaches(&figure.view(), pair(i, j));
    }
    assert_eq!(search.statistics().potential, 446);
}
