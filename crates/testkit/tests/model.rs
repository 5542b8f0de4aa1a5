//! The sentences of `docs/model.md`, one by one, on traces small enough to see the answer.

mod support;

use snag_model::Trace;
use snag_testkit::*;
use support::trace;

/// The predictable races at a level, events numbered from 0.
fn at(level: Level, trace: &Trace) -> Vec<(u32, u32)> {
    races(trace, level).into_iter().map(|(a, b)| (a.0, b.0)).collect()
}

/// The predictable races at the three levels.
fn levels(text: &str) -> [Vec<(u32, u32)>; 3] {
    let trace = trace(text);
    [Level::Writer, Level::Value, Level::Control].map(|level| at(level, &trace))
}

/// The predictable races, the same at all levels.
fn all(text: &str) -> Vec<(u32, u32)> {
    let [writer, value, control] = levels(text);
    assert_eq!((&writer, &writer), (&value, &control));
    writer
}

fn pending(text: &str) -> Vec<Vec<u32>> {
    let found = deadlocks(&trace(text), Level::Writer);
    found.into_iter().map(|set| set.into_iter().map(|e| e.0).collect()).collect()
}

const NONE: [(u32, u32); 0] = [];

#[test]
fn two_atomics_do_not_conflict_and_an_atomic_and_a_plain_access_do() {
    assert_eq!(all("A atomic-write x\nB rmw x"), NONE);
    assert_eq!(all("A atomic-write x\nB read x"), [(0, 1)]);
    assert_eq!(all("A atomic-read x\nB read x"), NONE);
}

#[test]
fn ranges_conflict_if_they_share_a_byte() {
    assert_eq!(all("A write 10:4\nB read 13:2"), [(0, 1)]);
    assert_eq!(all("A write 10:4\nB read 14:2"), NONE);
}

#[test]
fn a_forked_thread_runs_after_its_fork_and_a_join_after_all_its_events() {
    assert_eq!(all("A write x\nA fork B\nB write x"), NONE);
    assert_eq!(all("A fork B\nA write x\nB write x\nA join B\nA write x"), [(1, 2)]);
    // Also if the joined thread does nothing that was recorded.
    assert_eq!(all("A write x\nA fork B\nC join B\nC write x"), NONE);
}

#[test]
fn a_lock_is_held_by_one_thread_or_by_readers() {
    assert_eq!(all("A acquire l\nA write x\nA release l\nB acquire l\nB write x\nB release l"), NONE);
    assert_eq!(
        all("A read-acquire l\nA write x\nA read-release l\nB read-acquire l\nB write x\nB read-release l"),
        [(1, 4)]
    );
    assert_eq!(all("A acquire l\nA write x\nA release l\nB read-acquire l\nB write x\nB read-release l"), NONE);
    // The order of two sections is not fixed, and a section need not happen at all.
    assert_eq!(all("A write x\nA acquire l\nA release l\nB acquire l\nB release l\nB write x"), [(0, 5)]);
}

#[test]
fn only_the_outermost_pair_of_a_lock_matters() {
    let text = "A acquire l\nA acquire l\nA release l\nA write x\nA release l\nB acquire l\nB write x\nB release l";
    assert_eq!(all(text), NONE);
}

#[test]
fn a_lone_reader_may_acquire_for_writing() {
    let text = "A read-acquire l\nA acquire l\nA write x\nA release l\nA read-release l\nB acquire l\nB write x";
    assert_eq!(all(text), NONE);
    let text = "A read-acquire l\nA acquire l\nA release l\nA write x\nA read-release l\nB read-acquire l\nB write x";
    assert_eq!(all(text), [(3, 6)]);
}

#[test]
fn a_wait_gives_the_lock_up_and_takes_it_again() {
    let text = "A acquire l\nA acquire l\nA wait-begin c l\nB acquire l\nB write x\nB notify c\nB release l\n\
                A wake c 5\nA wait-end c l\nA write x\nA release l\nA release l";
    assert_eq!(all(text), NONE);
}

#[test]
fn a_wake_up_comes_after_its_notify_and_that_after_the_wait_began() {
    // A's write comes after the notify, B's before it.
    let after = "A acquire l\nA wait-begin c l\nB write x\nB notify c\nA wake c 3\nA wait-end c l\nA write x";
    assert_eq!(all(after), NONE);
    // A wake-up that names none may come any time.
    assert_eq!(all(&after.replace("wake c 3", "wake c")), [(2, 6)]);
    // A notify may come before the wait that it ended, if that is not to end.
    let before = "A write x\nA acquire l\nA wait-begin c l\nB notify c\nB write x\nA wake c 3\nA wait-end c l";
    assert_eq!(all(before), [(0, 4)]);
}

#[test]
fn a_semaphore_never_goes_below_zero() {
    assert_eq!(all("A write x\nA sem-post s\nB sem-wait s\nB write x"), NONE);
    assert_eq!(all("sem s := 1\nA write x\nA sem-post s\nB sem-wait s\nB write x"), [(0, 3)]);
    let two = "sem s := 1\nA write x\nA sem-post s\nB sem-wait s\nB sem-wait s\nB write x";
    assert_eq!(all(two), NONE);
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_entered() {
    let text = "A write x\nA barrier-enter b\nB barrier-enter b\nB barrier-leave b\nB write x\nA barrier-leave b";
    assert_eq!(all(text), NONE);
    // Declared for one: each enter is a generation of its own, and they fill one after the other.
    assert_eq!(all(&format!("barrier b := 1\n{text}")), NONE);
    let other = "B barrier-enter b\nA write x\nA barrier-enter b\nB barrier-leave b\nB write x\nA barrier-leave b";
    assert_eq!(all(other), NONE);
    assert_eq!(all(&format!("barrier b := 1\n{other}")), [(1, 4)]);
}

#[test]
fn heap_memory_lives_from_alloc_to_free() {
    assert_eq!(all("A alloc h\nA write h\nB free h"), [(1, 2)]);
    assert_eq!(all("A alloc 10:8\nA write 12:2\nB write 12:2\nB free 10:8"), [(1, 2), (1, 3)]);
    // Memory allocated again is other memory.
    assert_eq!(all("A alloc h\nA write h\nA free h\nB alloc h\nB write h"), NONE);
    // And its address is another value. Here D takes what C has put into the slot, not what A has put there.
    let slot = |number: u32| {
        let first = format!("A alloc 2000:8\nA atomic-write 3000:8={number}\nB rmw 3000:8={number}>0\nB free 2000:8\n");
        let second = "C alloc 2000:8\nC write 2000:8\n";
        let taken = format!("C atomic-write 3000:8={number}\nD rmw 3000:8={number}>0\nD free 2000:8");
        levels(&[&first, second, &taken].concat())
    };
    assert_eq!(slot(0x2000), [vec![], vec![], vec![]]);
    assert_eq!(slot(5), [vec![], vec![(5, 8)], vec![(5, 8)]]);
    // An access cannot race once its block may be gone: the free has to happen first here.
    assert_eq!(all("A alloc h\nA write h\nA free h\nA write x\nB write x"), [(3, 4)]);
}

#[test]
fn missing_methods_that_could_reach_a_common_object_keep_their_order() {
    let text = "A write x\nA method-begin m y\nA method-end m\nB method-begin m y\nB method-end m\nB write x";
    assert_eq!(all(text), NONE);
    assert_eq!(all(&text.replace("B method-begin m y", "B method-begin m z")), [(0, 5)]);
    let reached = "A write x\nA method-begin m lock/l\nA method-end m\nB acquire l\nB write x";
    assert_eq!(all(reached), NONE);
    assert_eq!(all(&reached.replace("B acquire l", "B acquire k")), [(0, 4)]);
    let inside = "A method-begin m x\nA write y\nA method-end m\nB write x\nB write y";
    assert_eq!(all(inside), NONE);
    let touched = "A method-begin m thread/B\nA write y\nA method-end m\nB begin\nB write y";
    assert_eq!(all(touched), NONE);
}

#[test]
fn a_pair_that_rule_3_orders_is_no_race() {
    assert_eq!(all("A method-begin m x\nA write x\nA method-end m\nB write x"), NONE);
}

#[test]
fn writer_wants_the_same_write_and_value_the_same_value() {
    let text = "A write y\nA write x=1\nB read x=1\nB write y\nC write x=1";
    let [writer, value, _] = levels(text);
    assert_eq!(writer, [(1, 2), (1, 4), (2, 4)]);
    assert_eq!(value, [(0, 3), (1, 2), (1, 4), (2, 4)]);
    // What C writes is not known.
    assert_eq!(levels(&text.replace("C write x=1", "C write x"))[1], writer);
}

#[test]
fn the_initial_memory_counts_as_a_write() {
    let text = "A write y\nA write x=1\nB read x=1\nB write y";
    assert_eq!(levels(text)[1], [(1, 2)]);
    assert_eq!(levels(&format!("x := 1\n{text}"))[1], [(0, 3), (1, 2)]);
    // Else it is what the first read finds that no write precedes.
    assert_eq!(levels(&format!("C read x=1\n{text}"))[1], [(0, 2), (1, 4), (2, 3)]);
    assert_eq!(levels(&format!("C read x\n{text}"))[1], [(0, 2), (2, 3)]);
}

#[test]
fn a_read_that_the_trace_does_not_explain_must_see_the_same_write() {
    let text = "A write y\nA write x=1\nB read x=2\nB write y\nC write x=2";
    assert_eq!(levels(text)[1], [(1, 2), (1, 4), (2, 4)]);
}

#[test]
fn values_are_compared_byte_by_byte() {
    // B reads the low byte from A (1) and the high byte from C (1). D's write has the same low byte.
    let text = "A write y\nA write 10:2=1\nC write 11:1=1\nB read 10:2=257\nB write y\nD write 10:1=1";
    let [writer, value, _] = levels(text);
    assert!(!writer.contains(&(0, 4)) && value.contains(&(0, 4)));
    assert!(!levels(&text.replace("D write 10:1=1", "D write 10:1=0"))[1].contains(&(0, 4)));
}

#[test]
fn the_last_read_of_a_thread_may_see_anything_but_not_right_before_a_racing_access() {
    let text = "A write y\nA write x\nB read x\nB write y";
    assert_eq!(levels(text)[0], [(1, 2)]);
}

#[test]
fn a_read_is_not_the_last_if_its_thread_is_joined_afterwards() {
    assert_eq!(all("A write x\nB read x\nC join B\nC write x"), [(0, 1)]);
}

#[test]
fn an_rmw_must_be_kept_even_if_it_is_last() {
    // C's read would see B's rmw, which must see A's write.
    let text = "A write y\nA atomic-write x=1\nB rmw x=1>2\nC read x=2\nC write y";
    let [writer, value, _] = levels(text);
    assert!(!writer.contains(&(0, 4)) && !value.contains(&(0, 4)));
}

#[test]
fn control_keeps_only_reads_that_a_branch_follows() {
    let text = "A write y\nA write x=1\nB read x=1\nB write y\nB branch";
    let [_, value, control] = levels(text);
    assert_eq!((value, control), (vec![(1, 2)], vec![(0, 3), (1, 2)]));
    let text = "A write y\nA write x=1\nB read x=1\nB branch\nB write y";
    assert_eq!(levels(text)[2], [(1, 2)]);
    let text = "A write y\nA write x=1\nB read x=1\nB method-begin m\nB write y\nC branch";
    assert_eq!(levels(text)[2], [(1, 2)]);
    // Without any branch every read counts.
    assert_eq!(levels("A write y\nA write x=1\nB read x=1\nB write y")[2], [(1, 2)]);
}

#[test]
fn what_a_thread_writes_after_reading_something_else_is_unknown() {
    // B goes astray at control; C reads what B writes, the same event as in the trace, and comes to a branch.
    let text = "A write y\nA write x=1\nB read x=1\nB write z=5\nC read z=5\nC branch\nC write y";
    assert!(!levels(text)[2].contains(&(0, 6)));
    // Without the branch of C it does not matter.
    assert!(levels(&text.replace("C branch", "D branch"))[2].contains(&(0, 6)));
}

#[test]
fn readers_do_not_wait_for_each_other_but_two_upgrades_do() {
    let upgrade = "A read-acquire l\nA acquire l\nA release l\nA read-release l\n\
                   B read-acquire l\nB acquire l\nB release l\nB read-release l";
    assert_eq!(pending(upgrade), [[1, 5]]);
    let crossed = |op: &str| {
        format!(
            "A {op}acquire l\nA {op}acquire m\nA {op}release m\nA {op}release l\n\
             B {op}acquire m\nB {op}acquire l\nB {op}release l\nB {op}release m"
        )
    };
    assert_eq!(pending(&crossed("")), [[1, 5]]);
    assert!(pending(&crossed("read-")).is_empty());
}

#[test]
fn the_end_of_a_wait_can_be_part_of_a_deadlock() {
    let text = "A acquire l\nA acquire m\nA wait-begin c m\nA wake c\nA wait-end c m\nA release m\nA release l\n\
                B acquire m\nB acquire l\nB release l\nB release m";
    assert_eq!(pending(text), [[1, 8], [4, 8]]);
}

#[test]
fn release_sequences_are_followed_rmw_by_rmw() {
    let text = "A write x\nA atomic-write f release\nB rmw f relaxed\nC atomic-read f acquire\nC write x";
    assert!(hb_races(&trace(text)).is_empty());
    // A plain store in between ends the sequence, and so does a relaxed read.
    let cut = text.replace("rmw f relaxed", "atomic-write f relaxed");
    assert_eq!(hb_races(&trace(&cut)).len(), 1);
    let relaxed = text.replace("read f acquire", "read f relaxed");
    assert_eq!(hb_races(&trace(&relaxed)).len(), 1);
    // Yet no schedule shows it: the read would see something else.
    assert!(shb_races(&trace(&relaxed)).is_empty() && fhb_races(&trace(&relaxed)).is_empty());
}
