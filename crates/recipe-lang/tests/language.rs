//! The language, feature by feature: what a run looks like, and what the explorer says about the program.

mod support;

use snag_checker::{Checker, ScheduleRule};
use snag_model::{Cells, EventId, Trace};
use snag_recipe_lang::{Plan, compile, explore, run};
use support::*;

/// What is wrong with a program.
fn mistake(text: &str) -> String {
    compile("p", text).expect_err("it has a mistake").show("p", text).to_string()
}

/// The race of a program, if there is one: variable and lines.
fn races(text: &str) -> Vec<String> {
    let explored = explore(&compiled("p", text), 100_000);
    assert!(explored.complete);
    let show = |race: &snag_recipe_lang::RealRace| {
        format!("{} {} {}", race.variable, race.first.location, race.second.location)
    };
    explored.races.iter().map(show).collect()
}

/// The rule that a schedule breaks at level `symbolic`.
fn broken(trace: &Trace, schedule: &[u32]) -> Option<ScheduleRule> {
    let cells = Cells::of(trace);
    let schedule = schedule.iter().map(|&event| EventId(event));
    Checker::new(trace, &cells).reads_of(schedule, &[]).err().map(|violation| violation.rule)
}

#[test]
fn mistakes_are_shown_where_they_are() {
    assert_eq!(
        mistake("shared int x;\nthread T {\n\tx = 1 + ;\n}\n"),
        "p:3:10: expected an expression, found ';'\n  |\n3 | \tx = 1 + ;\n  | \t        ^"
    );
    assert_eq!(
        mistake("shared int counter;\nthread T { countr = 1; }"),
        "p:2:12: 'countr' is not declared\n  |\n2 | thread T { countr = 1; }\n  |            ^^^^^^\n  = did you mean 'counter'?"
    );
    for (text, message) in [
        ("shared int x\nthread T { }", "p:1:13: expected ';' at the end of this line"),
        ("thread T { x = 1; }", "p:1:12: 'x' is not declared"),
        ("shared u8 x = 256;", "256 does not fit into u8"),
        ("shared int x; shared int x;", "'x' is declared twice"),
        ("thread T { int i; int i; }", "'i' is declared twice"),
        ("thread T {", "p:1:10: this '{' is never closed"),
        ("thread T { break; }", "'break' outside of a loop"),
        ("thread T { int if = 1; }", "found the keyword 'if'"),
        ("shared int a[2]; thread T { a = 1; }", "'a' is an array"),
        ("shared int a[0]; thread T { }", "expected a length"),
        ("shared int a[1] = {1, 2};", "2 values for 1 elements"),
        ("int f(int v) { return; } thread T { }", "a value must be returned"),
        ("void f() { return 1; } thread T { }", "nothing is returned here"),
        ("void f() { } thread T { int i = f(); }", "f returns nothing"),
        ("int f(int v) { return v; } thread T { f(); }", "f takes 1 arguments, not 0"),
        ("lock l; thread T { lock(m); }", "'m' is not declared"),
        ("shared int l; thread T { lock(l); }", "'l' is no lock"),
        ("shared int c; lock l; thread T { wait(c, l); }", "'c' is no condition variable"),
        ("shared int x; thread T { fork x; }", "'x' is no thread"),
        ("shared int x; thread T { x == 1; }", "this statement does nothing"),
        ("shared integer n; thread T { n = n & 1; }", "has no width"),
        ("class A { int f(int v) { return v; } } class B { int f() { return 1; } }", "other parameters"),
        ("object o = A; thread T { }", "there is no class A"),
        ("shared ref o; thread T { o.f(); }", "no class has a method f"),
        ("shared int x; thread T { x = 3 @ 4; }", "'@' means nothing here"),
        ("", "there is no thread"),
        ("int x;", "a variable outside of functions is shared"),
        ("thread T(int n) { }", "nothing forks it"),
    ] {
        let shown = mistake(text);
        assert!(shown.contains(message), "{text}\n{shown}");
    }
}

#[test]
fn control_flow_and_functions() {
    let program = "
shared int x;
int fib(int n) { if (n < 2) return n; return fib(n - 1) + fib(n - 2); }
thread T {
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        if (i == 3) continue;
        if (i > 6) break;
        sum += i;
    }
    while (sum > 10) sum -= 4;
    int a[3] = {1, 2};
    a[2] = a[0] + a[1];
    x = sum * 100 + fib(7) + a[2] + (sum > 5 ? 1000 : 2000) + (~0 & 7) + (1 << 4) - (9 >> 1) - 7 % 4 - -3;
}";
    let trace = traced("p", program, "");
    // 0+1+2+4+5+6 = 18, less 4 twice = 10.
    let last = text(&trace).lines().last().unwrap().to_owned();
    let expected = 10 * 100 + 13 + 3 + 1000 + 7 + 16 - 4 - 3 + 3;
    assert!(last.starts_with(&format!("T|w(x)={expected}<-")), "{last}");
}

#[test]
fn logical_operators_skip_what_is_not_needed() {
    let program = "
shared int x, y;
thread T {
    if (x != 0 && 10 / x > 1)
        y = 1;
    if (x == 0 || 10 / x > 1)
        y = 2;
}";
    let run = ran("p", program, "");
    assert!(run.failures.is_empty());
    assert!(text(&run.trace).contains("w(y)=2") && !text(&run.trace).contains("w(y)=1"));
    assert!(explore(&compiled("p", program), 1000).failures.is_empty());
}

#[test]
fn threads_are_forked_with_arguments_and_joined() {
    let program = "
shared int x;
thread T(int n, u8 m) { x = x + n + m; }
main {
    int k = x + 1;
    fork T(k, 250);
    join T;
    x = x + 1;
}";
    let trace = traced("p", program, "main,T,main");
    assert_eq!(
        lines_of(&trace, "T"),
        [
            "r(T.n)=1->T.n.5|p:3",
            "let(n.6)=T.n.5|p:3",
            "r(T.m)=250->T.m.7:u8|p:3",
            "let(m.8)=T.m.7|p:3",
            "r(x)=0->x.9|p:3",
            "w(x)=251<-(+ (+ x.9 n.6) (i64 m.8))|p:3",
        ]
    );
    assert_eq!(races(program), Vec::<String>::new());
}

#[test]
fn waiting_and_notifying() {
    let program = "
shared int ready, data;
lock m;
cond c;
thread consumer {
    lock(m);
    while (ready == 0)
        wait(c, m);
    unlock(m);
    int d = data;
}
thread producer {
    data = 42;
    lock(m);
    ready = 1;
    notify(c);
    unlock(m);
}";
    let trace = traced("p", program, "consumer,producer,consumer");
    assert!(text(&trace).contains("consumer|wake(c,9)|p:8\nconsumer|wait-end(c,m)|p:8"), "{}", text(&trace));
    let explored = explore(&compiled("p", program), 100_000);
    assert!(explored.races.is_empty() && explored.deadlocks.is_empty() && explored.failures.is_empty());
    // Without the lock around the test the notify may be lost.
    let lost = program.replace("    lock(m);\n    while (ready == 0)\n", "    lock(m);\n    if (1 == 1)\n");
    assert!(!explore(&compiled("p", &lost), 100_000).deadlocks.is_empty());
}

#[test]
fn deadlocks_and_failures_are_found() {
    let program = "
shared int x;
lock a, b;
thread T { lock(a); lock(b); x = 1; unlock(b); unlock(a); }
thread U { lock(b); lock(a); x = 2; unlock(a); unlock(b); }
thread V { assert(x != 2); }";
    let explored = explore(&compiled("p", program), 100_000);
    assert_eq!(explored.deadlocks.len(), 1);
    assert!(explored.failures.contains(&("p:6".to_owned(), "assertion failed".to_owned())));
    assert_eq!(explored.location_pairs().len(), 2);
    let few = explore(&compiled("p", program), 10);
    assert!(!few.complete && few.states == 10);
}

#[test]
fn a_schedule_that_cannot_be_is_refused() {
    let program = compiled("p", "lock l; thread T { lock(l); } thread U { lock(l); }");
    let plan = |schedule: &str| {
        let turns = Plan::parse_turns(&program, schedule)?;
        run(&program, &Plan { turns, ..Plan::default() }).map(|_| ())
    };
    assert_eq!(plan("T*1"), Ok(()));
    assert!(plan("T*2").unwrap_err().contains("cannot make step 2 of 2: it has ended"));
    assert!(plan("T,U").unwrap_err().contains("it needs l, which T holds"));
    assert!(plan("V").unwrap_err().contains("there is no thread 'V'"));
    assert!(plan("T*x").unwrap_err().contains("no number of steps"));
}

// ---- Where values decide more than values ----

#[test]
fn overflow_wraps_around() {
    let program = "
shared u8 n = 250;
shared int x;
thread T {
    u8 v = n;
    v += 10;
    if (v < 10)
        x = 1;
}
thread U {
    n = 245;
    x = 2;
}";
    let trace = traced("p", program, "T,U");
    assert_eq!(lines_of(&trace, "T")[2], "let(v.2)=(+ v.1 10)|p:6");
    // 245 + 10 does not wrap around: the branch would go the other way.
    let first = trace.len() as u32 - 2;
    assert_eq!(broken(&trace, &[first, 0, 1, 2, 3]), Some(ScheduleRule::OtherOutcome));
    assert_eq!(races(program), ["n p:11 p:5", "x p:12 p:8"]);
}

#[test]
fn signed_division_rounds_towards_zero_and_may_overflow() {
    let program = "
shared i8 n = -128;
shared int x;
thread T {
    i8 v = n / 2;
    x = v % 10;
    i8 w = v / n;
}
thread U {
    n = -1;
}";
    let run = ran("p", program, "T*1,U,T");
    // -64 / -1 is fine, and so is -128 / 2.
    assert!(run.failures.is_empty(), "{:?}", run.failures);
    assert!(text(&run.trace).contains("w(x)=-4<-(i64 (% v.1 10))"), "{}", text(&run.trace));
    let overflow = program.replace("i8 v = n / 2", "i8 v = n");
    let explored = explore(&compiled("p", &overflow), 10_000);
    assert!(explored.failures.contains(&("p:7".to_owned(), "the smallest number divided by -1".to_owned())));
    // The guard says so, too: after n = -1 the quotient overflows.
    let trace = traced("p", &overflow, "T,U");
    assert!(text(&trace).contains("(and (!= n.3 0) (or (!= v.1 -128) (!= n.3 -1)))"), "{}", text(&trace));
    assert_eq!(broken(&trace, &[0, 1, 2, 6, 3]), None);
    assert_eq!(broken(&trace, &[0, 1, 2, 6, 3, 4]), Some(ScheduleRule::OtherOutcome));
}

#[test]
fn division_by_a_symbol_that_may_become_zero() {
    let program = "
shared int d = 2;
shared int x;
thread T {
    int q = 10 / d;
    x = q;
}
thread U {
    d = 0;
    x = 5;
}";
    let trace = traced("p", program, "T,U");
    assert_eq!(lines_of(&trace, "T")[1], "branch{divisor}((!= d.0 0))=1|p:5");
    assert_eq!(broken(&trace, &[4, 0]), None);
    assert_eq!(broken(&trace, &[4, 0, 1]), Some(ScheduleRule::OtherOutcome));
    // U must not have written d = 0 before T divides; it may have after.
    assert_eq!(races(program), ["d p:5 p:9", "x p:10 p:6"]);
}

#[test]
fn an_array_index_from_a_shared_read() {
    let program = "
shared int i;
shared int a[2];
thread T { a[i] = 1; }
thread U {
    i = 1;
    a[0] = 2;
}";
    let trace = traced("p", program, "T,U");
    assert_eq!(lines_of(&trace, "T")[1], "branch{index}((= i.0 0))=1|p:4");
    // With i = 1 another element is written.
    assert_eq!(broken(&trace, &[3, 0, 1]), Some(ScheduleRule::OtherOutcome));
    accepted(&trace, &[0, 1, 3], &[], &[(0, 0)], [2, 4]);
    assert_eq!(races(program), ["a[0] p:4 p:7", "i p:4 p:6"]);
}

#[test]
fn a_lock_chosen_by_a_shared_read() {
    let program = "
shared int k, x;
lock ls[2];
thread T {
    int c = k;
    lock(ls[c]);
    x = 1;
    unlock(ls[c]);
}
thread U {
    k = 1;
    lock(ls[0]);
    x = 2;
    unlock(ls[0]);
}";
    let trace = traced("p", program, "T,U");
    assert_eq!(lines_of(&trace, "T")[2], "branch{lock}((= c.1 0))=1|p:6");
    // That T would take another lock cannot be seen in this trace; that it would is a real race.
    assert_eq!(broken(&trace, &[7, 0, 1, 2]), Some(ScheduleRule::OtherOutcome));
    assert_eq!(races(program), ["k p:11 p:5", "x p:13 p:7"]);
}

#[test]
fn a_pointer_read_from_shared_memory() {
    let program = "
class Cell { int f; }
object a = Cell;
object b = Cell;
shared ref p = a;
thread T { p.f = 1; }
thread U {
    p = b;
    a.f = 2;
}";
    let trace = traced("p", program, "T,U");
    assert_eq!(lines_of(&trace, "T")[1], "branch{address}((= p.0 1))=1|p:6");
    assert_eq!(broken(&trace, &[3, 0, 1]), Some(ScheduleRule::OtherOutcome));
    accepted(&trace, &[0, 1, 3], &[], &[(0, 1)], [2, 4]);
    assert_eq!(races(program), ["a.f p:6 p:9", "p p:6 p:8"]);
}

#[test]
fn what_is_printed_keeps_its_value() {
    let program = "
shared int x, y;
thread T {
    print(x + 1);
    y = 1;
}
thread U {
    x = 3;
    y = 2;
}";
    let trace = traced("p", program, "T,U");
    assert_eq!(lines_of(&trace, "T")[1], "branch{output}((= (+ x.0 1) 1))=1|p:4");
    assert_eq!(broken(&trace, &[3, 0, 1]), Some(ScheduleRule::OtherOutcome));
}

#[test]
fn the_side_not_taken_is_followed_as_far_as_it_is_certain() {
    let program = "
shared int x, y, z, a[2];
lock l;
int twice(int v) { return 2 * v; }
thread T {
    int k = 1;
    if (x == 0) {
        y = 1;
    } else {
        lock(l);
        int d = twice(y) / x;
        a[k] = d;
        unlock(l);
        a[y] = 1;
        z = 1;
    }
}";
    let trace = traced("p", program, "T");
    assert_eq!(
        lines_of(&trace, "T"),
        [
            "let(k.0)=1|p:6",
            "r(x)=0->x.1|p:7",
            "branch((= x.1 0))=1|p:7",
            "else-acq(l)|p:10",
            "else-r(y)->y.4|p:11",
            "else-r(x)->x.5|p:11",
            "else-branch{divisor}((and (!= x.5 0) (or (!= (* 2 y.4) -9223372036854775808) (!= x.5 -1))))|p:11",
            "else-let(d.7)=(/ (* 2 y.4) x.5)|p:11",
            "else-w(a[1])<-d.7|p:12",
            "else-rel(l)|p:13",
            "else-r(y)->y.10|p:14",
            "w(y)=1<-1|p:8",
        ]
    );
}
