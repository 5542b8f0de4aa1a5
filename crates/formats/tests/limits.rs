//! Where the formats reach their limits: tables that do not fit into one block, what cannot be written, and work that
//! must not grow with the square of the input.

mod common;

use common::{Drip, read_as, snag_bytes, write_as};
use snag_formats::open::Format;
use snag_formats::snag_format::{SnagReader, SnagWriter};
use snag_formats::text_format::TextWriter;
use snag_formats::*;
use snag_model::events::Event;
use snag_model::tables::Object;
use snag_model::*;
use std::time::{Duration, Instant};

/// A trace of one event.
fn tiny() -> Trace {
    let mut trace = Trace::default();
    trace.tables.thread("T");
    trace.events.push(Event::new(ThreadId(0), Op::Branch, 0));
    trace
}

#[test]
fn tables_that_do_not_fit_into_one_block_are_split() {
    let mut trace = tiny();
    let tables = &mut trace.tables;
    for i in 0..600_000u32 {
        if i % 2 == 0 {
            tables.variable_range(0x1000 + 8 * i as u64, 1 + i as u64 % 9);
        } else {
            tables.variable_named(&i.to_string());
        }
    }
    for i in 0..600_000 {
        tables.location(&format!("{i:x}"));
    }
    for i in 0..5 {
        tables.intern(Space::Lock, &(i.to_string() + &"l".repeat(4_000_000)));
        tables.variable_named(&(i.to_string() + &"v".repeat(4_000_000)));
        tables.reach(vec![Object::Variable(VarId(i)); 1_500_000]);
    }
    for i in 0..500_000u32 {
        tables.declarations.initial.push((VarId(i), i as i64 - 500));
    }
    tables.comments.resize(1_100_000, (1, "#".to_owned()));
    tables.declarations.plain_locks.push(LockId(4));
    assert!(read_as(Format::Snag, &snag_bytes(&trace, true)).unwrap() == trace);
}

#[test]
fn what_is_too_large_is_not_written() {
    let mut trace = tiny();
    trace.tables.intern(Space::Text, &"x".repeat((4 << 20) + 1));
    assert!(write_as(Format::Snag, &trace).unwrap_err().message.contains("longer than"));
    let mut trace = tiny();
    trace.tables.reach(vec![Object::Thread(ThreadId(0)); (4 << 20) + 1]);
    assert!(write_as(Format::Snag, &trace).unwrap_err().message.contains("could reach more than"));
    let mut trace = tiny();
    let long = trace.tables.intern(Space::Text, &"x".repeat(1 << 20));
    trace.events.push(Event::new(ThreadId(0), Op::Mark, long));
    let error = write_as(Format::Text, &trace).unwrap_err();
    assert!(error.message.contains("line would be longer"), "{error}");
    assert_eq!(error.position, Position::Event(1));
}

#[test]
fn what_text_cannot_say_is_an_error() {
    for name in ["", "#1", "%1", "a|b", "a\nb"] {
        let mut trace = tiny();
        let thread = trace.tables.thread(name);
        trace.events.push(Event::new(thread, Op::Branch, 0));
        let error = write_as(Format::Text, &trace).unwrap_err();
        assert_eq!(error.position, Position::Event(1), "{error}");
        assert!(error.message.contains("thread's name"), "{error}");
    }
    let mut trace = tiny();
    let location = trace.tables.location("a|b");
    trace.events.push(Event { location, ..Event::new(ThreadId(0), Op::Branch, 0) });
    assert!(write_as(Format::Text, &trace).unwrap_err().message.contains("location"));
    for event in [
        Event { value: Some(1), ..Event::new(ThreadId(0), Op::Branch, 0) },
        Event { aux: 1, ..Event::new(ThreadId(0), Op::End, 0) },
    ] {
        let mut trace = tiny();
        trace.events.push(event);
        assert!(write_as(Format::Text, &trace).is_err());
    }
}

#[test]
fn what_std_would_read_as_something_else_is_an_error() {
    for mark in ["r(x)", "w(x)", "", "branch", "frob", "dummy(", "fork(T1)"] {
        let mut trace = tiny();
        let text = trace.tables.intern(Space::Text, mark);
        trace.events.push(Event::new(ThreadId(0), Op::Mark, text));
        let error = write_as(Format::Std, &trace).unwrap_err();
        assert_eq!(error.position, Position::Event(1), "{error}");
        assert!(error.message.contains("mark"), "{error}");
    }
    for mark in ["begin", "endless", "dummy()", "dummy(r(x))"] {
        let mut trace = tiny();
        let text = trace.tables.intern(Space::Text, mark);
        trace.events.push(Event::new(ThreadId(0), Op::Mark, text));
        assert!(write_as(Format::Std, &trace).is_ok());
    }
    let mut trace = tiny();
    let location = trace.tables.location("a\r");
    trace.events.push(Event { location, ..Event::new(ThreadId(0), Op::Branch, 0) });
    assert!(write_as(Format::Std, &trace).unwrap_err().message.contains("carriage return"));
    let mut trace = tiny();
    let variable = trace.tables.variable_named("");
    trace.events.push(Event::new(ThreadId(0), Op::Read, variable.0));
    assert!(write_as(Format::Std, &trace).unwrap_err().message.contains("empty name"));
}

#[test]
fn declarations_come_before_use() {
    let mut trace = tiny();
    let semaphore = SemId(trace.tables.intern(Space::Semaphore, "s"));
    trace.events.push(Event::new(ThreadId(0), Op::SemPost, semaphore.0));
    let mut snag = SnagWriter::new(Vec::new(), false);
    let mut text = TextWriter::new(Vec::new());
    snag.write(&trace.events, &trace.tables).unwrap();
    snag.flush(&trace.tables).unwrap();
    text.write(&trace.events, &trace.tables).unwrap();

    // Something new can be declared in .snag at any time, in text only before the first event.
    let fresh = SemId(trace.tables.intern(Space::Semaphore, "fresh"));
    trace.tables.declarations.semaphores.push((fresh, 3));
    let mut more = Events::new();
    more.restart(2);
    more.push(Event::new(ThreadId(0), Op::SemWait, fresh.0));
    snag.write(&more, &trace.tables).unwrap();
    snag.flush(&trace.tables).unwrap();
    let error = text.write(&more, &trace.tables).unwrap_err();
    assert!(error.message.contains("after its first event"), "{error}");

    // What events may have used already cannot.
    let mut late = trace.tables.clone();
    late.declarations.semaphores.push((semaphore, 5));
    more.restart(3);
    more.push(Event::new(ThreadId(0), Op::SemWait, fresh.0));
    let mut broken = SnagWriter::new(Vec::new(), false);
    broken.write(&trace.events, &trace.tables).unwrap();
    broken.flush(&trace.tables).unwrap();
    broken.write(&more, &late).unwrap();
    let error = broken.flush(&late).unwrap_err();
    assert!(error.message.contains("declared after"), "{error}");

    let bytes = snag.finish(&trace.tables).unwrap();
    let read = read_as(Format::Snag, &bytes).unwrap();
    assert_eq!(read.tables.declarations.semaphores, [(fresh, 3)]);
    // Read as a whole, it can be written as text.
    let text = write_as(Format::Text, &read).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "%snag 1\n%semaphore fresh 3\nT|branch|\nT|sem-post(s)|\nT|sem-wait(fresh)|\n"
    );
}

#[test]
fn many_directives_names_and_comments_cost_no_more_than_linear_time() {
    let many = 40_000;
    let mut text = "%snag 1\n".to_owned();
    for i in 0..many {
        text += &format!("%lock l{i} plain\n# {i}\n%semaphore s{i} 1\n%init x{i} {i}\n\n");
    }
    for i in 0..many {
        text += &format!(
            "T|acq(l{i})|{i}\nT|sem-wait(s{i})|\nT|rel(l{i})|\nT|method-begin(m,{{x{i},lock:l{i}}})|\n#\nT|method-end(m)|\n"
        );
    }
    let start = Instant::now();
    let trace = read_as(Format::Text, text.as_bytes()).unwrap();
    assert_eq!(write_as(Format::Text, &trace).unwrap(), text.as_bytes());
    let bytes = snag_bytes(&trace, true);
    assert!(read_as(Format::Snag, &bytes).unwrap() == trace);
    let drip = TraceReader::new(Box::new(SnagReader::new(Drip::new(&bytes, 7000))), None);
    assert!(drip.read_all().unwrap().0 == trace);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// A thread that has not run yet, behind very many that have, must not have all of them looked at for every event.
#[test]
fn very_many_threads_are_read_in_linear_time() {
    let threads = 200_000;
    let text: String = (0..threads).map(|k| format!("T{k}|w(x)|a\n")).collect();
    let start = Instant::now();
    let trace = read_as(Format::Std, text.as_bytes()).unwrap();
    assert_eq!(trace.tables.thread_count(), threads);
    let bytes = snag_bytes(&trace, true);
    assert!(read_as(Format::Snag, &bytes).unwrap() == trace);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// Of every thread that is forked the reader wants to know whether a later line is by it, or by one of the same number.
#[test]
fn very_many_forks_are_read_in_linear_time() {
    let forks = 100_000;
    let text: String = (0..forks).map(|k| format!("T|fork({k})|\n")).collect();
    let start = Instant::now();
    assert_eq!(read_as(Format::Std, text.as_bytes()).unwrap().tables.thread_count(), forks + 1);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}
