//! The validator looks at many events at once; it must find what looking at one after the other finds.

mod common;

use common::{Random, random_trace};
use snag_formats::TraceReader;
use snag_model::events::Event;
use snag_model::{Events, LocId, Op, ThreadId, Trace, Validator};
use snag_synthesis::generate::{Generator, Shape};

#[test]
fn whole_blocks_are_judged_as_event_by_event() {
    let mut random = Random::new(7);
    let (mut broken, mut sound) = (0, 0);
    for round in 0..3000 {
        let trace = match round % 3 {
            0 => random_trace(round as u64, 40 + round % 200),
            kind => generated(round as u64, kind == 1),
        };
        let events = damaged(&trace, &mut random);
        let (mut single, mut one_by_one) = (Validator::new(), Ok(()));
        let mut so_far = Events::new();
        for index in 0..events.len() {
            so_far.push(events.get(index));
            one_by_one = one_by_one.and_then(|()| single.check(&so_far, index, &trace.tables));
        }
        let at_once = Validator::new().check(&events, 0, &trace.tables);
        assert_eq!(at_once, one_by_one);
        match at_once {
            Ok(()) => sound += 1,
            Err(_) => broken += 1,
        }
    }
    assert!(broken > 500 && sound > 500, "{broken} broken, {sound} sound");
}

fn generated(seed: u64, values: bool) -> Trace {
    let shape = Shape { events: 300, threads: 4, locks: 3, variables: 12, values, seed, ..Shape::default() };
    TraceReader::new(Box::new(Generator::new(shape)), None).read_all().expect("well formed").0
}

/// One or two events changed, or none.
fn damaged(trace: &Trace, random: &mut Random) -> Events {
    let mut all: Vec<Event> = trace.events.iter().collect();
    for _ in 0..random.below(3) {
        let at = random.below(all.len());
        match random.below(6) {
            0 => all[at].thread = ThreadId(random.below(trace.tables.thread_count() + 1) as u32),
            1 => all[at].target = random.below(20) as u32,
            2 => all[at].op = [Op::End, Op::Join, Op::Begin, Op::Alloc, Op::WaitBegin][random.below(5)],
            3 => all[at].location = LocId(random.below(60_000) as u32),
            4 => all[at].aux = random.below(3) as u32,
            _ => all.swap(at, random.below(trace.len())),
        }
    }
    let mut events = Events::new();
    all.into_iter().for_each(|event| events.push(event));
    events
}
