//! Malformed input of every format: each is refused at the right place and for the right reason.

mod common;

use common::{EVERY_EVENT, read_as, snag_bytes};
use snag_formats::compression::Compression;
use snag_formats::open::Format;
use snag_formats::snag_format::{MAGIC, repaired};
use snag_formats::*;
use snag_model::events::Event;
use snag_model::*;
use std::io::{Read, Write};
use std::path::PathBuf;

/// Reads, and compares the error with what is expected.
fn check(name: &str, format: Format, input: &[u8], position: Position, phrase: &str) {
    match read_as(format, input) {
        Ok(trace) => panic!("{name}: accepted, {} events", trace.len()),
        Err(error) => check_error(name, &error, position, phrase),
    }
}

fn check_error(name: &str, error: &Error, position: Position, phrase: &str) {
    assert_eq!(error.position, position, "{name}: {error}");
    assert!(error.message.contains(phrase), "{name}: expected '{phrase}' in: {error}");
    assert!(error.to_string().len() < 500, "{name}: {error}");
}

#[test]
fn std() {
    use Position::Line;
    let cases: &[(&str, &[u8], Position, &str)] = &[
        ("empty", b"", Position::Whole, "empty"),
        ("unknown operation", b"T|w(x)|a\nT|frob(x)|b\n", Line(2), "unknown operation 'frob(x)'"),
        ("no operation", b"T||b\n", Line(1), "unknown operation ''"),
        ("no bracket", b"T|r(x|b\n", Line(1), "lacks its closing ')'"),
        ("no target", b"T|w()|b\n", Line(1), "no target"),
        ("no bar", b"T|w(x)|a\nhello\n", Line(2), "no '|'"),
        ("one bar", b"T|w(x)\n", Line(1), "only one '|'"),
        ("three bars", b"T|w(x)|a|b\n", Line(1), "more than two '|'"),
        ("three bars later", b"T|w(x)|a\nT|w(x)|a\nT|w(x)|a|\n", Line(3), "more than two '|'"),
        ("blank line", b"T|w(x)|a\n\nT|w(x)|a\n", Line(2), "the line is blank"),
        ("blank line at the end", b"T|w(x)|a\n\n", Line(2), "the line is blank"),
        ("no thread", b"|w(x)|a\n", Line(1), "no name"),
        ("0xff in the location", b"T|w(x)|\xff\n", Line(1), "not UTF-8"),
        ("0xff in the thread", b"T|w(x)|a\n\xff\xff|w(x)|a\n", Line(2), "not UTF-8"),
        ("0xff in the target", b"T|w(\xff)|a\n", Line(1), "not UTF-8"),
        ("0xff in the operation", b"T|\xff|a\n", Line(1), "unknown operation"),
        ("only 0xff", &[0xff; 100], Line(1), "no '|'"),
        ("only NUL", &[0; 100], Line(1), "no '|'"),
        ("NUL for operation", b"T|\0|a\n", Line(1), "unknown operation"),
        ("LF after CR LF", b"T|w(x)|a\r\nT|w(x)|a\nT|w(x)|a\r\n", Line(2), "LF alone"),
        ("CR LF after LF", b"T|w(x)|a\nT|w(x)|a\r\n", Line(2), "CR LF although"),
        ("CR without LF", b"T|w(x)|a\r\nT|w(x)|a\r", Line(2), "CR without LF"),
        ("release of nothing", b"T|w(x)|a\nT|rel(l)|b\n", Line(2), "not held"),
        ("foreign release", b"T|acq(l)|a\nU|rel(l)|b\n", Line(2), "that thread T holds"),
        ("lock held", b"T|acq(l)|a\nU|acq(l)|b\n", Line(2), "while thread T holds it"),
        ("event before fork", b"U|w(x)|a\nT|fork(U)|b\n", Line(2), "ran before"),
        ("event after join", b"T|fork(U)|a\nT|join(U)|b\nU|w(x)|c\n", Line(3), "already been joined"),
        ("text of Snag", b"%snag 1\nT|w(x)|\n", Line(1), "no '|'"),
    ];
    for (name, input, position, phrase) in cases {
        check(name, Format::Std, input, *position, phrase);
    }
}

#[test]
fn text() {
    use Position::Line;
    // What follows the first line, unless it is given.
    let cases: &[(&str, &[u8], Position, &str)] = &[
        ("empty", b"", Position::Whole, "empty"),
        ("only the first line", b"%snag 1\n", Position::Whole, "no event"),
        ("only comments", b"%snag 1\n# a\n\n%init x 1\n", Position::Whole, "no event"),
        ("no first line", b"T|w(x)|\n", Line(1), "first line is not '%snag 1'"),
        ("future version", b"%snag 2\nT|w(x)|\n", Line(1), "version '2' is not known"),
        ("blank after the version", b"%snag 1 \nT|w(x)|\n", Line(1), "the first line is not"),
        ("unknown operation", b"%snag 1\n# c\nT|frob(x)|\n", Line(3), "unknown operation 'frob(x)'"),
        ("capital letters", b"%snag 1\nT|W(x)|\n", Line(2), "unknown operation"),
        ("word of reports", b"%snag 1\nT|write(x)|\n", Line(2), "unknown operation"),
        ("no bracket", b"%snag 1\nT|w|\n", Line(2), "expected '(' before 'the end'"),
        ("no closing bracket", b"%snag 1\nT|w(x|\n", Line(2), "expected ')' before 'the end'"),
        ("no name", b"%snag 1\nT|w()|\n", Line(2), "expected a name before ')'"),
        ("something behind", b"%snag 1\nT|w(x) |\n", Line(2), "unexpected ' ' at the end"),
        ("blank in a bare name", b"%snag 1\nT|w(a b)|\n", Line(2), "expected ')' before ' b)'"),
        ("needless quotes", b"%snag 1\nT|w(\"x\")|\n", Line(2), "\"x\" must be written x"),
        ("open quotes", b"%snag 1\nT|w(\"x)|\n", Line(2), "lacks its closing '\"'"),
        ("unknown escape", b"%snag 1\nT|w(\"\\q\")|\n", Line(2), "unknown escape"),
        ("needless escape", b"%snag 1\nT|w(\"\\u{41} b\")|\n", Line(2), "must be written \"A b\""),
        ("tab in quotes", b"%snag 1\nT|w(\"a\tb\")|\n", Line(2), "must be written \"a\\tb\""),
        ("prefix in a bare name", b"%snag 1\nT|w(lock:x)|\n", Line(2), "not a bare name: write \"lock:x\""),
        ("range of a lock", b"%snag 1\nT|acq(0x10:4)|\n", Line(2), "not a bare name: write \"0x10:4\""),
        ("capital range", b"%snag 1\nT|w(0x1F:4)|\n", Line(2), "must be written 0x1f:4"),
        ("empty range", b"%snag 1\nT|w(0x10:0)|\n", Line(2), "size is 0"),
        ("wrapping range", b"%snag 1\nT|w(0xffffffffffffffff:2)|\n", Line(2), "over the end"),
        ("range without size", b"%snag 1\nT|w(0x10:)|\n", Line(2), "expected a hexadecimal address"),
        ("leading zero", b"%snag 1\nT|w(x)=01|\n", Line(2), "'01' is not a value"),
        ("65 bits", b"%snag 1\nT|w(x)=9223372036854775808|\n", Line(2), "is not a value"),
        ("no value", b"%snag 1\nT|w(x)=|\n", Line(2), "expected an integer"),
        ("value of a lock", b"%snag 1\nT|acq(l)=1|\n", Line(2), "unexpected '=1'"),
        ("symbol of a write", b"%snag 1\nT|w(x)->v|\n", Line(2), "unexpected '->v'"),
        ("no memory order", b"%snag 1\nT|atomic-r(x)|\n", Line(2), "expected ','"),
        ("fence without order", b"%snag 1\nT|fence()|\n", Line(2), "expected a name before ')'"),
        ("unknown order of a fence", b"%snag 1\nT|fence(strong)|\n", Line(2), "'strong' is no memory order"),
        ("unknown memory order", b"%snag 1\nT|atomic-r(x,strong)|\n", Line(2), "'strong' is no memory order"),
        ("rmw with one value", b"%snag 1\nT|rmw(x,relaxed)=1|\n", Line(2), "expected ':'"),
        ("rmw without values", b"%snag 1\nT|rmw(x,relaxed)=?:?|\n", Line(2), "has no '='"),
        ("wait without lock", b"%snag 1\nT|wait-begin(c)|\n", Line(2), "expected ',' before ')'"),
        ("wake by a name", b"%snag 1\nT|wake(c,n)|\n", Line(2), "expected an integer"),
        ("wake by a negative event", b"%snag 1\nT|wake(c,-1)|\n", Line(2), "-1 is no event number"),
        ("method without set", b"%snag 1\nT|method-begin(m)|\n", Line(2), "expected ',' before ')'"),
        ("method with an empty argument", b"%snag 1\nT|method-begin(m,)|\n", Line(2), "expected a name before ')'"),
        (
            "arguments that end in a comma",
            b"%snag 1\nT|method-begin(m,lock:l,)|\n",
            Line(2),
            "expected a name before ')'",
        ),
        ("arguments with a set", b"%snag 1\nT|method-begin(m,lock:l,{x})|\n", Line(2), "expected a name before '{x})'"),
        (
            "argument that nothing was said about",
            b"%snag 1\nT|reach(o,{p})|\nT|method-begin(m,o)|\nT|method-begin(m,lock:l,o,p)|\n",
            Line(4),
            "is given p, and nothing says what it leads to (rule: a 'reach' of an object",
        ),
        ("argument that is described later", b"%snag 1\nT|method-begin(m,o)|\nT|reach(o,{})|\n", Line(2), "is given o"),
        ("reach of a lock", b"%snag 1\nT|reach(lock:l,{x})|\n", Line(2), "not a bare name"),
        ("reach without set", b"%snag 1\nT|reach(o)|\n", Line(2), "expected ',' before ')'"),
        ("reach without braces", b"%snag 1\nT|reach(o,x)|\n", Line(2), "expected '{' before 'x)'"),
        ("open set of an object", b"%snag 1\nT|reach(o,{x)|\n", Line(2), "expected ',' before ')'"),
        ("reach with a value", b"%snag 1\nT|reach(o,{x})=3|\n", Line(2), "unexpected '=3'"),
        ("open set", b"%snag 1\nT|method-begin(m,{x)|\n", Line(2), "expected ',' before ')'"),
        ("comma at the end of a set", b"%snag 1\nT|method-begin(m,{x,})|\n", Line(2), "expected a name before '})'"),
        ("let without expression", b"%snag 1\nT|let(v)|\n", Line(2), "expected '='"),
        ("open branch", b"%snag 1\nT|branch((< 1 2)|\n", Line(2), "missing ')'"),
        ("unfinished branch", b"%snag 1\nT|branch(1|\n", Line(2), "lacks its closing ')'"),
        ("begin with brackets", b"%snag 1\nT|begin(x)|\n", Line(2), "unexpected '(x)'"),
        ("one bar", b"%snag 1\nT|w(x)\n", Line(2), "fewer than two '|'"),
        ("three bars", b"%snag 1\nT|w(x)|a|\n", Line(2), "more than two '|'"),
        ("no thread", b"%snag 1\n|w(x)|\n", Line(2), "no name"),
        ("0xff", b"%snag 1\nT|w(x)|\xff\n", Line(2), "not UTF-8"),
        ("0xff in a comment", b"%snag 1\n# \xff\nT|w(x)|\n", Line(2), "not UTF-8"),
        ("NUL in a bare name", b"%snag 1\nT|w(a\0)|\n", Line(2), "expected ')'"),
        ("LF after CR LF", b"%snag 1\r\nT|w(x)|a\n", Line(2), "LF alone"),
        ("CR LF after LF", b"%snag 1\nT|w(x)|a\n# c\r\n", Line(3), "CR LF although"),
        ("CR without LF", b"%snag 1\r\nT|w(x)|a\r", Line(2), "CR without LF"),
        ("two CR", b"%snag 1\r\nT|w(x)|a\r\r\n", Line(2), "more than one CR"),
        ("CR at the end", b"%snag 1\nT|w(x)|a\r", Line(2), "CR without LF"),
        ("unknown directive", b"%snag 1\n%thread T\nT|w(x)|\n", Line(2), "unknown directive '%thread'"),
        ("first line again", b"%snag 1\n%snag 1\nT|w(x)|\n", Line(2), "unknown directive '%snag'"),
        ("late directive", b"%snag 1\nT|w(x)|\n\n%init x 1\n", Line(4), "after the first event"),
        ("directive said twice", b"%snag 1\n%init x 1\n%init x 2\nT|w(x)|\n", Line(3), "twice"),
        ("lock that is not plain", b"%snag 1\n%lock l fancy\nT|w(x)|\n", Line(2), "expected ' plain'"),
        ("directive without name", b"%snag 1\n%semaphore\nT|w(x)|\n", Line(2), "expected a name"),
        ("semaphore below zero", b"%snag 1\n%semaphore s -1\nT|w(x)|\n", Line(2), "-1 is no initial count"),
        ("barrier for nobody", b"%snag 1\n%barrier b 0\nT|w(x)|\n", Line(2), "0 is no number of parties"),
        ("two blanks", b"%snag 1\n%init x  1\nT|w(x)|\n", Line(2), "expected an integer before ' 1'"),
        ("blank at the end", b"%snag 1\n%init x 1 \nT|w(x)|\n", Line(2), "unexpected ' '"),
        ("STD", b"T1|w(x)|a\n", Line(1), "first line"),
    ];
    for (name, input, position, phrase) in cases {
        check(name, Format::Text, input, *position, phrase);
    }
}

/// Lines after the first of a text that breaks a rule in the last line. Every rule has one.
fn breaking(rule: Rule) -> &'static str {
    match rule {
        Rule::EventBeforeFork => "U|w(x)|\nT|fork(U)|",
        Rule::ForkedTwice => "T|fork(U)|\nT|fork(U)|",
        Rule::ForkOrJoinOfSelf => "T|join(T)|",
        Rule::EventAfterJoin => "T|fork(U)|\nU|w(x)|\nT|join(U)|\nU|w(x)|",
        Rule::BeginNotFirst => "T|w(x)|\nT|begin|",
        Rule::EventAfterEnd => "T|end|\nT|w(x)|",
        Rule::LockHeld => "T|racq(l)|\nU|acq(l)|",
        Rule::AcquiredTwice => "%lock l plain\nT|acq(l)|\nT|acq(l)|",
        Rule::ForeignRelease => "T|acq(l)|\nU|rel(l)|",
        Rule::ReleaseNotHeld => "T|acq(l)|\nT|rel(l)|\nT|rel(l)|",
        Rule::WaitWithoutLock => "T|wait-begin(c,l)|",
        Rule::EventWhileWaiting => "T|acq(l)|\nT|wait-begin(c,l)|\nT|w(x)|",
        Rule::NoSuchWait => "T|acq(l)|\nT|wait-begin(c,l)|\nT|wake(d)|",
        Rule::NoSuchNotify => "T|acq(l)|\nT|wait-begin(c,l)|\nU|notify(d)|\nT|wake(c,2)|",
        Rule::NotifyBeforeWait => "U|notify(c)|\nT|acq(l)|\nT|wait-begin(c,l)|\nT|wake(c,0)|",
        Rule::NotifyUsedTwice => {
            "T|acq(l)|\nT|wait-begin(c,l)|\nU|acq(l)|\nU|wait-begin(c,l)|\nV|notify(c)|\nT|wake(c,4)|\nU|wake(c,4)|"
        }
        Rule::SemaphoreBelowZero => "%semaphore s 1\nT|sem-wait(s)|\nU|sem-wait(s)|",
        Rule::NothingHeld => "T|racq(l)|\nU|tryfail(l)|\nU|rtryfail(l)|",
        Rule::OtherCount => "%semaphore s 1\nT|sem-value(s)=1|\nT|sem-post(s)|\nT|sem-value(s)=1|",
        Rule::NotAlive => "T|fork(U)|\nT|join-fail(U)|\nU|w(x)|\nU|end|\nT|join-fail(U)|",
        Rule::BarrierEnteredTwice => "T|barrier-enter(b)|\nT|barrier-enter(b)|",
        Rule::BarrierNotEntered => "T|barrier-leave(b)|",
        Rule::BarrierLeftEarly => "%barrier b 2\nT|barrier-enter(b)|\nT|barrier-leave(b)|",
        Rule::BlocksOverlap => "T|alloc(0x10:8)|\nT|alloc(0x14:8)|",
        Rule::FreeOfNoBlock => "T|alloc(0x10:8)|\nT|free(0x10:4)|",
        Rule::AccessAfterFree => "T|alloc(0x10:8)|\nT|free(0x10:8)|\nU|r(0x14:1)|",
        Rule::AccessAcrossBlocks => "T|alloc(0x10:8)|\nT|r(0x14:8)|",
        Rule::MethodsDoNotNest => "T|method-begin(m,{})|\nT|method-begin(n,{})|\nT|method-end(m)|",
        Rule::ObjectNotDescribed => "T|reach(o,{p})|\nT|method-begin(m,o)|\nT|method-begin(n,p)|",
        Rule::SymbolDefinedTwice => "T|r(x)->v|\nT|let(v)=1|",
        Rule::SymbolUndefined => "U|r(x)->v|\nT|w(x)<-(+ v 1)|",
        Rule::BadExpression => "T|branch((frob 1))|",
        Rule::ValueOutOfType => "T|r(x)=127->v:i8|\nT|r(x)=128->w:i8|",
        Rule::WidthDiffers => "T|r(0x10:4)->v:i32|\nT|w(0x10:4)<-v|\nT|w(0x10:4)<-(u64 v)|",
        Rule::WrongValue => "T|r(x)=1->v|\nT|branch((< v 2))=1|\nT|let(u)=(* v 3)|\nT|w(x)=3<-u|\nT|w(x)=4<-u|",
        Rule::UndefinedResult => "T|r(x)=1->v|\nT|let(u)=(/ 1 v)|\nT|let(w)=(/ 1 (- v 1))|",
        Rule::OtherSideWithoutBranch => "T|branch(1)|\nT|else-r(x)|\nU|w(x)|\nT|else-w(x)<-1|\nT|w(x)|\nT|else-r(x)|",
        Rule::BadMemoryOrder => "T|atomic-r(x,release)|",
        Rule::NotFreed => {
            "T|alloc(0x10:8)|\nT|free(0x10:8)|\nU|stale-read(0x14:2)|\nT|alloc(0x10:8)|\nU|stale-write(0x14:2)|"
        }
        Rule::WantedIsFree => "T|racq(l)|\nU|rwant(l)|",
        Rule::EventAfterWant => "T|acq(l)|\nU|want(l)|\nT|want(l)|\nU|w(x)|",
        Rule::UnheldIsHeld => "T|acq(l)|\nU|release-unheld(l)|\nT|release-unheld(l)|",
        // Text has names and no ids; see `ids_that_stand_for_nothing`.
        Rule::UnknownName => "",
    }
}

const RULES: &[Rule] = &[
    Rule::EventBeforeFork,
    Rule::ForkedTwice,
    Rule::ForkOrJoinOfSelf,
    Rule::EventAfterJoin,
    Rule::BeginNotFirst,
    Rule::EventAfterEnd,
    Rule::LockHeld,
    Rule::AcquiredTwice,
    Rule::ForeignRelease,
    Rule::ReleaseNotHeld,
    Rule::WaitWithoutLock,
    Rule::EventWhileWaiting,
    Rule::NoSuchWait,
    Rule::NoSuchNotify,
    Rule::NotifyBeforeWait,
    Rule::NotifyUsedTwice,
    Rule::SemaphoreBelowZero,
    Rule::NothingHeld,
    Rule::OtherCount,
    Rule::NotAlive,
    Rule::NotFreed,
    Rule::WantedIsFree,
    Rule::EventAfterWant,
    Rule::UnheldIsHeld,
    Rule::BarrierEnteredTwice,
    Rule::BarrierNotEntered,
    Rule::BarrierLeftEarly,
    Rule::BlocksOverlap,
    Rule::FreeOfNoBlock,
    Rule::AccessAfterFree,
    Rule::AccessAcrossBlocks,
    Rule::MethodsDoNotNest,
    Rule::ObjectNotDescribed,
    Rule::SymbolDefinedTwice,
    Rule::SymbolUndefined,
    Rule::BadExpression,
    Rule::ValueOutOfType,
    Rule::WidthDiffers,
    Rule::WrongValue,
    Rule::UndefinedResult,
    Rule::OtherSideWithoutBranch,
    Rule::BadMemoryOrder,
];

#[test]
fn a_type_that_does_not_exist_is_no_part_of_a_name() {
    for (lines, word) in [("T|r(x)=5->v:u2|", "'u2' is no type"), ("T|let(v:i33)=1|", "'i33' is no type")] {
        let text = format!("%snag 1\n\n{lines}\n");
        check(word, Format::Text, text.as_bytes(), Position::Line(3), word);
    }
}

#[test]
fn every_rule_in_text_and_in_snag() {
    for &rule in RULES {
        let name = format!("{rule:?}");
        let text = format!("%snag 1\n# {name}\n\n{}\n", breaking(rule));
        let line = text.lines().count() as u64;
        check(&name, Format::Text, text.as_bytes(), Position::Line(line), rule.text());
        // The same events in .snag: all but the last are well formed, so they can be read; the last is added.
        let shorter = format!("{}\nX|w(other)|\n", &text[..text.trim_end().rfind('\n').unwrap()]);
        let mut unread = unvalidated(text.as_bytes());
        let events = unread.len() as u64;
        unread.tables.comments.clear();
        check(&name, Format::Snag, &snag_bytes(&unread, true), Position::Event(events - 1), rule.text());
        assert!(read_as(Format::Text, shorter.as_bytes()).is_ok(), "{name}: not only the last line is wrong");
    }
}

/// A trace in Snag's text as it stands, whether it is well formed or not.
fn unvalidated(text: &[u8]) -> Trace {
    let mut reader = snag_formats::text_format::TextReader::new(std::io::Cursor::new(text.to_vec()));
    let mut trace = Trace::default();
    while reader.read_block(&mut trace.tables, &mut trace.events).unwrap() {}
    trace
}

#[test]
fn ids_that_stand_for_nothing() {
    for op in Op::ALL {
        for wrong in ["target", "aux", "thread", "location"] {
            let mut trace = Trace::default();
            trace.tables.thread("T");
            trace.events.push(Event::new(ThreadId(0), Op::Branch, 0));
            let mut event = Event::new(ThreadId(0), op, 0);
            let here = match wrong {
                "target" => {
                    event.target = 77;
                    !matches!(op, Op::Begin | Op::End | Op::Fence)
                }
                "aux" => {
                    event.aux = 77;
                    event.target = 0;
                    matches!(op, Op::Branch)
                }
                "thread" => {
                    event.thread = ThreadId(77);
                    true
                }
                _ => {
                    event.location = LocId(77);
                    true
                }
            };
            if !here {
                continue;
            }
            trace.events.push(event);
            let name = format!("{wrong} of {op:?}");
            check(&name, Format::Snag, &snag_bytes(&trace, false), Position::Event(1), Rule::UnknownName.text());
        }
    }
}

/// A `.snag` file made of blocks given by kind, number of events and payload.
fn file(blocks: &[(u8, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(4u32.to_le_bytes());
    bytes.extend([0; 4]);
    for (kind, events, payload) in blocks {
        bytes.extend([*kind, 0, 0, 0]);
        for field in [payload.len() as u32, payload.len() as u32, *events, 0, 0] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(*payload);
    }
    repaired(&bytes)
}

/// Where the blocks of a file start.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let mut at = 16;
    let mut starts = vec![0];
    while at < bytes.len() {
        starts.push(at);
        at += 24 + u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    starts
}

/// A small file with blocks of every kind.
fn small_file() -> Vec<u8> {
    let bytes = snag_bytes(&read_as(Format::Text, EVERY_EVENT.as_bytes()).unwrap(), false);
    let kinds: Vec<u8> = starts(&bytes)[1..].iter().map(|&at| bytes[at]).collect();
    assert_eq!(kinds, [1, 3, 2, 4, 5]);
    bytes
}

/// Names of thread `T` and variable `x`; nothing else.
const NAMES: &[u8] = b"\0\x01\x01T\0\0\0\0\0\0\0\0\0\x01\0\x01x\0\0\0\0\0";
/// One write of `x` by `T`.
const EVENTS: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 1];

/// The same as recorded: the lengths of the streams, control, thread and run, site, target.
const RECORDED: &[u8] = b"\x01\0\x02\0\x04\0\0\0\0\0\0\0\x01\x32\0\x01\x01\0\0\0\0";

fn end(events: u64, index: u64) -> Vec<u8> {
    [&events.to_le_bytes()[..], &index.to_le_bytes(), b"\0SNAGEND"].concat()
}

#[test]
fn snag_blocks() {
    let sound = file(&[(1, 0, NAMES), (2, 1, EVENTS), (5, 0, &end(1, 0))]);
    let trace = read_as(Format::Snag, &sound).unwrap();
    assert_eq!(trace.events.get(0), Event::new(ThreadId(0), Op::Write, 0));
    let (first, second) = (16, 16 + 24 + NAMES.len() as u64);
    let third = second + 24 + EVENTS.len() as u64;

    let names = |payload: &[u8]| file(&[(1, 0, payload), (2, 1, EVENTS), (5, 0, &end(1, 0))]);
    let events = |payload: &[u8], count| file(&[(1, 0, NAMES), (2, count, payload), (5, 0, &end(count as u64, 0))]);
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = sound.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        repaired(&file)
    };
    let mut lz4 = sound.clone();
    lz4[17] = 1;
    let recorded = |payload: &[u8], count| file(&[(1, 0, NAMES), (7, count, payload), (5, 0, &end(count as u64, 0))]);
    // An event at a new site: the control byte, the site, the target.
    let with_site = |control: &[u8], site: &[u8], target: &[u8]| {
        let lengths = [1, 0, 2, 0, site.len() as u8, 0, 0, 0, 0, 0, 0, 0, target.len() as u8];
        recorded(&[&lengths[..], control, b"\0\x01", site, target].concat(), 1)
    };
    let old = |version: u8, file: &[u8]| {
        let mut file = file.to_vec();
        file[8] = version;
        repaired(&file)
    };
    assert_eq!(read_as(Format::Snag, &recorded(RECORDED, 1)).unwrap(), trace);
    assert_eq!(read_as(Format::Snag, &old(1, &sound)).unwrap(), trace);
    assert_eq!(read_as(Format::Snag, &old(2, &sound)).unwrap(), trace);
    let mut zeros = sound[..third as usize].to_vec();
    zeros.extend([0; 4096]);
    let comment = |payload: &[u8]| file(&[(1, 0, NAMES), (3, 0, payload), (2, 1, EVENTS), (5, 0, &end(1, 0))]);
    let cases: &[(&str, Vec<u8>, u64, &str)] = &[
        ("wrong magic", patched(0, b"SNAX"), 0, "not those of a .snag file"),
        ("transferred as text", [b"SNAG\n\x1a\n", &sound[8..]].concat(), 0, "as if it were text"),
        ("STD", b"T|w(x)|somewhere\n".to_vec(), 0, "not those of a .snag file"),
        (
            "future version",
            patched(8, &[5]),
            0,
            "version 5 of .snag is not known to this snag, which reads versions 1 to 4",
        ),
        ("cut in the header", sound[..15].to_vec(), 0, "cut off inside the file header"),
        ("only the header", sound[..16].to_vec(), first, "before its first whole block"),
        ("cut in the first block", sound[..30].to_vec(), first, "before its first whole block"),
        ("cut in the first events", sound[..third as usize - 1].to_vec(), second, "before its first whole block"),
        ("unknown kind", patched(16, &[9]), first, "unknown kind of block 9"),
        ("unknown compression", patched(17, &[3]), first, "unknown compression 3"),
        ("not zero", patched(18, &[1]), first, "must be zero"),
        ("no lz4", repaired(&lz4), first, "cannot be decompressed"),
        ("no zstd", patched(17, &[2]), first, "cannot be decompressed"),
        ("zstd in an old file", old(1, &patched(17, &[2])), first, "version 1"),
        ("recorded events in an old file", old(1, &recorded(RECORDED, 1)), second, "version 1"),
        ("events recorded by an earlier snag", old(2, &recorded(RECORDED, 1)), second, "record again"),
        (
            "both kinds of events",
            file(&[(1, 0, NAMES), (2, 1, EVENTS), (7, 1, RECORDED), (5, 0, &end(2, 0))]),
            third,
            "two kinds",
        ),
        ("control bytes missing", recorded(RECORDED, 2), second, "1 control bytes for 2 events"),
        ("streams cut short", recorded(&RECORDED[..17], 1), second, "too short for its streams"),
        ("more behind the streams", recorded(&[RECORDED, b"x"].concat(), 1), second, "1 bytes too many"),
        ("site not declared", recorded(b"\x01\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\x01", 1), second, "was not declared"),
        ("unknown site", recorded(b"\x01\0\x02\0\0\0\0\0\0\0\0\0\0\x03\0\x01", 1), second, "unknown bits"),
        ("no run", recorded(b"\x01\0\x02\0\0\0\0\0\0\0\0\0\0\x02\0\0", 1), second, "a run of 0 events"),
        ("value of nothing", with_site(b"\x12", &[6, 0, 0, 0], b"\0"), second, "nor is a branch has a value"),
        ("lock with a size", with_site(b"\x02", &[5, 4, 0, 0], b"\0"), second, "'acquire' has a size"),
        ("operation not known", with_site(b"\x02", &[60, 0, 0, 0], b"\0"), second, "unknown operation 60"),
        ("negative location", with_site(b"\x02", &[1, 0, 1, 0], b"\0"), second, "a location that has no name"),
        ("name not known", with_site(b"\x32", &[1, 0, 0, 0], b"\x02"), second, "variable 1 has no name yet"),
        ("payload too long", patched(20, &[1, 0, 0, 4]), first, "longer than"),
        ("plain too long", patched(24, &[1, 0, 0, 4]), first, "longer than"),
        ("lengths differ", patched(24, &[200]), first, "cannot hold"),
        ("events in a names block", patched(28, &[1]), first, "claims to have some"),
        ("no events in an events block", events(&EVENTS[..8], 0), second, "a block of 0 events"),
        ("too many events", events(EVENTS, 65537), second, "a block of 65537 events"),
        ("zeros after a whole block", zeros, third, "the checksum of the block's header"),
        ("garbage at the end", [&sound[..], b"x"].concat(), sound.len() as u64, "something after the end"),
        ("a second end", [&sound[..], &sound[third as usize..]].concat(), sound.len() as u64, "after the end"),
        ("wrong count", file(&[(1, 0, NAMES), (2, 1, EVENTS), (5, 0, &end(2, 0))]), third, "1 events instead of 2"),
        ("no events", file(&[(1, 0, NAMES), (5, 0, &end(0, 0))]), second, "there is no event"),
        ("short end", file(&[(1, 0, NAMES), (2, 1, EVENTS), (5, 0, b"x")]), third, "the end block is not"),
        (
            "index is not there",
            file(&[(1, 0, NAMES), (2, 1, EVENTS), (5, 0, &end(1, 16))]),
            third,
            "wrong place for the index",
        ),
        ("index of other blocks", file(&[(1, 0, NAMES), (2, 1, EVENTS), (4, 0, b"\x01\0\x01")]), third, "the index"),
        (
            "block after the index",
            file(&[(1, 0, NAMES), (4, 0, b"\x01\0\x01"), (2, 1, EVENTS)]),
            second + 24 + 3,
            "after the index",
        ),
        ("empty names block", names(b""), first, "ends in the middle"),
        ("unknown layout", names(&[4]), first, "unknown layout 4"),
        ("names cut short", names(&NAMES[..NAMES.len() - 1]), first, "ends in the middle"),
        ("names with more behind", names(&[NAMES, b"x"].concat()), first, "1 bytes too many"),
        ("thread named twice", names(b"\0\x02\x01\x01TT"), first, "the name 'T' comes twice"),
        ("location none again", names(b"\0\0\0\0\0\0\0\0\x01\0"), first, "the name '' comes twice"),
        ("name is no text", names(b"\0\x01\x01\xff"), first, "not UTF-8"),
        ("name too long", names(b"\0\x01\xff\xff\xff\xff\x7f"), first, "is longer than"),
        ("too many names", names(b"\0\xff\xff\xff\xff\x7f"), first, "too long for one block"),
        ("number too long", names(b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), first, "more than 64 bits"),
        ("variable twice", names(b"\0\0\0\0\0\0\0\0\0\0\0\x02\0\x01x\0\x01x"), first, "'x' comes twice"),
        ("range twice", names(b"\0\0\0\0\0\0\0\0\0\0\0\x02\x01\x02\x04\x01\0\x04"), first, "'0x1:4' comes twice"),
        ("empty range", names(b"\0\0\0\0\0\0\0\0\0\0\0\x01\x01\x02\0"), first, "is empty or reaches over"),
        ("wrapping range", names(b"\0\0\0\0\0\0\0\0\0\0\0\x01\x01\x01\x02"), first, "is empty or reaches over"),
        ("unknown variable", names(b"\0\0\0\0\0\0\0\0\0\0\0\x01\x02"), first, "unknown kind of variable"),
        ("reach of nothing", names(b"\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\0"), first, "no name yet"),
        ("reach twice", names(b"\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0"), first, "comes twice"),
        ("undeclarable lock", names(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0"), first, "no name yet"),
        ("lock declared twice", names(b"\0\0\x01\x01l\0\0\0\0\0\0\0\0\0\0\x02\0\0"), first, "declared twice"),
        ("barrier for nobody", names(b"\0\0\0\0\0\x01\x01b\0\0\0\0\0\0\0\0\0\x01\0\0"), first, "0 parties"),
        (
            "declared after use",
            file(&[(1, 0, NAMES), (2, 1, EVENTS), (1, 0, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0")]),
            third,
            "declared after events",
        ),
        ("unknown operation", events(&[0, 0, 0, 0, 0, 0, 0, 0, 99], 1), second, "unknown operation 99"),
        ("unknown width", events(&[3, 0, 0, 0, 0, 0, 0, 0, 1], 1), second, "unknown width"),
        ("unknown width of values", events(&[0, 0, 0, 0, 3, 0, 0, 0, 1], 1), second, "unknown width"),
        ("written neither 0 nor 1", events(&[0, 0, 0, 0, 0, 2, 0, 0, 1], 1), second, "must be zero"),
        ("column cut short", events(&[4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], 1), second, "too short"),
        ("column too long", events(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0], 1), second, "1 bytes too many"),
        ("begin of something", events(&[0, 1, 0, 0, 0, 0, 0, 0, 11, 1], 1), second, "'begin' has a target"),
        ("release with a second", events(&[0, 0, 0, 1, 0, 0, 0, 0, 6, 1], 1), second, "refers to a second thing"),
        ("value of a begin", events(&[0, 0, 0, 0, 1, 0, 0, 0, 11, 1, 1], 1), second, "neither accesses memory"),
        ("value of no event", events(&[0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 1], 1), second, "beyond the end"),
        (
            "written by a write",
            events(&[0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1),
            second,
            "no rmw",
        ),
        ("comment is none", comment(b"\x01\0\x01x"), second, "neither is blank"),
        ("comment is no text", comment(b"\x01\0\x02#\xff"), second, "not UTF-8"),
        ("comment beyond the end", comment(b"\x01\x02\x01#"), third + 24 + 4, "beyond the last event"),
        (
            "comment too late",
            file(&[(1, 0, NAMES), (2, 1, EVENTS), (3, 0, b"\x01\0\x01#"), (5, 0, &end(1, 0))]),
            third,
            "comes too late",
        ),
    ];
    for (name, input, offset, phrase) in cases {
        check(name, Format::Snag, input, Position::Offset(*offset), phrase);
    }
    check("empty", Format::Snag, b"", Position::Whole, "empty");
}

#[test]
fn a_flipped_bit_anywhere_in_snag_is_found_in_its_block() {
    let bytes = small_file();
    let starts = starts(&bytes);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let error = read_as(Format::Snag, &flipped).expect_err("a flipped bit is found");
            let block = *starts.iter().rfind(|&&start| start <= at).unwrap() as u64;
            assert_eq!(error.position, Position::Offset(block), "bit {bit} of byte {at}: {error}");
        }
    }
}

#[test]
fn snag_cut_off_anywhere_is_an_error_or_a_warning() {
    let bytes = small_file();
    let after_events = starts(&bytes)[4];
    for cut in 0..bytes.len() {
        let reader = snag_format::SnagReader::new(std::io::Cursor::new(bytes[..cut].to_vec()));
        match TraceReader::new(Box::new(reader), None).read_all() {
            Err(error) => assert!(cut < after_events, "cut at {cut}: {error}"),
            Ok((trace, warnings)) => {
                assert!(cut >= after_events);
                assert!(warnings[0].contains(&format!("cut off after event {}", trace.len() - 1)), "{warnings:?}");
            }
        }
    }
}

#[test]
fn long_lines() {
    let mut text = b"T|w(x)|a\nT|w(x)|".to_vec();
    text.extend(vec![b'y'; 3 << 20]);
    text.extend(b"\nT|w(x)|a\n");
    check("3 MiB in STD", Format::Std, &text, Position::Line(2), "longer than");
    let text = [b"%snag 1\n".to_vec(), text].concat();
    check("3 MiB in text", Format::Text, &text, Position::Line(3), "longer than");
}

/// A line of `left` bytes, of which nobody holds more than is asked for.
struct Endless {
    left: u64,
    asked: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.left.min(buffer.len() as u64) as usize;
        buffer[..n].fill(b'z');
        self.left -= n as u64;
        self.asked += n as u64;
        assert!(self.asked < 16 << 20, "more was read of the line than is needed to refuse it");
        Ok(n)
    }
}

#[test]
fn a_line_of_a_gigabyte_is_refused_after_a_few_megabytes() {
    for format in [None, Some(Format::Std), Some(Format::Text)] {
        let endless = Endless { left: 1 << 30, asked: 0 };
        let error = read_from(endless, format, None).and_then(|r| r.read_all()).unwrap_err();
        check_error("endless", &error, Position::Line(1), "longer than");
    }
    let error = read_from(Endless { left: 1 << 30, asked: 0 }, Some(Format::Snag), None).and_then(|r| r.read_all());
    check_error("endless", &error.unwrap_err(), Position::Offset(0), "not those of a .snag file");
}

#[test]
fn a_snag_block_that_claims_to_be_long_is_not_believed() {
    // 64 MiB are claimed, nothing is there: memory grows only as bytes arrive.
    let mut bytes = file(&[(1, 0, NAMES)]);
    bytes[20..28].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 4]);
    check("long claim", Format::Snag, &repaired(&bytes), Position::Offset(16), "cut off before");
}

fn packed(compression: Compression, data: &[u8]) -> Vec<u8> {
    let mut writer = compression.writer(Vec::new()).unwrap();
    writer.write_all(data).unwrap();
    writer.finish().unwrap()
}

fn opened(bytes: Vec<u8>, format: Option<Format>) -> Result<Trace> {
    Ok(read_from(std::io::Cursor::new(bytes), format, None)?.read_all()?.0)
}

#[test]
fn compressed_input() {
    let mut random = common::Random::new(3);
    let std: String = (0..100_000).map(|i| format!("T{}|w(x{})|{i}\n", i % 3, random.below(100_000))).collect();
    for compression in [Compression::Gzip, Compression::Zstd, Compression::Lz4] {
        let name = compression.name();
        let whole = packed(compression, std.as_bytes());
        assert_eq!(opened(whole.clone(), None).unwrap().len(), 100_000);
        let error = opened(whole[..whole.len() / 2].to_vec(), None).unwrap_err();
        let Position::Line(line) = error.position else { panic!("{name}: {error}") };
        assert!((2..100_000).contains(&line), "{name}: {error}");
        check_error(name, &error, error.position, &format!("the {name} data is cut off"));
        let error = opened(whole[..whole.len() - 1].to_vec(), None).unwrap_err();
        assert!(matches!(error.position, Position::Line(50_000..=100_001)), "{name}: {error}");
        check_error(name, &error, error.position, &format!("the {name} data is cut off"));
        let error = opened(whole[..5].to_vec(), None).unwrap_err();
        check_error(name, &error, Position::Whole, &format!("the {name} data is cut off"));
        let mut damaged = whole.clone();
        let half = damaged.len() / 2;
        damaged[half..half + 8].fill(0x55);
        assert!(opened(damaged, None).is_err(), "{name}");
        let error = opened(packed(compression, b""), None).unwrap_err();
        check_error(name, &error, Position::Whole, "holds nothing");
        let error = opened(packed(Compression::Gzip, &whole), None).unwrap_err();
        check_error(name, &error, Position::Whole, "compressed twice");
        // A recording that is cut off is a warning, but a damaged wrapping is an error.
        let snag = packed(compression, &small_file());
        let error = opened(snag[..snag.len() - 1].to_vec(), None).unwrap_err();
        assert!(matches!(error.position, Position::Offset(_) | Position::Whole), "{name}: {error}");
        assert!(error.message.contains("is cut off"), "{name}: {error}");
    }
    for (name, bytes) in [("xz", &b"\xfd7zXZ\0rest"[..]), ("bzip2", b"BZh91AY&SY"), ("zip", b"PK\x03\x04rest")] {
        let error = opened(bytes.to_vec(), None).unwrap_err();
        check_error(name, &error, Position::Whole, &format!("compressed with {name}, which"));
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("snag-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn files() {
    let directory = directory("malformed");
    let path = |name: &str| directory.join(name);
    std::fs::write(path("empty.std"), b"").unwrap();
    std::fs::write(path("wrong.std"), b"T|w(x)|\nT|rel(l)|\n").unwrap();
    for (name, position, phrase) in [
        ("", Position::Whole, "is a directory"),
        ("nothing.std", Position::Whole, "there is no such file"),
        ("empty.std", Position::Whole, "is empty"),
        ("wrong.std", Position::Line(2), "not held"),
    ] {
        let error = open(&path(name), None).and_then(|r| r.read_all()).unwrap_err();
        check_error(name, &error, position, phrase);
        assert_eq!(error.path, Some(path(name)));
        assert!(error.to_string().starts_with(path(name).to_str().unwrap()), "{error}");
        if name != "wrong.std" {
            let error = snag_format::SnagFile::open(&path(name)).err().unwrap();
            assert_eq!(error.path, Some(path(name)), "{error}");
        }
    }
    for (name, format, phrase) in [
        ("out.txt", None, "does not tell the format"),
        ("out", None, "does not tell the format"),
        ("", Some(Format::Std), "directory"),
        ("no/such/directory/out.std", None, "cannot create"),
    ] {
        let error = create(&path(name), format, WriteOptions::default()).err().unwrap();
        check_error(name, &error, Position::Whole, phrase);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
