use super::*;
use snag_model::events::Events;
use snag_synthesis::Rng;

/// Events of all kinds, as a program might do them and as no program would.
fn events(seed: u64, count: usize) -> Vec<RecordedEvent> {
    let mut rng = Rng::new(seed);
    let mut random = move |below: u64| rng.number() % below;
    let mut all = Vec::new();
    for index in 0..count as u64 {
        let op = match random(8) {
            0 => Op::ALL[random(Op::ALL.len() as u64) as usize],
            1 => Op::Rmw,
            2 | 3 => Op::Write,
            4 => [Op::AtomicRead, Op::AtomicWrite][random(2) as usize],
            _ => Op::Read,
        };
        let size = match random(9) {
            0 if op.has_variable() => 0,
            1 => 1 + random(1 << 40),
            _ => [1, 2, 3, 4, 5, 8, 16][random(7) as usize],
        };
        let range = op.has_variable() && size > 0;
        let address = match random(4) {
            _ if matches!(op, Op::Begin | Op::End) => 0,
            _ if op.has_variable() && !range => random(3),
            _ if !range => random(1 << 32),
            0 => random(u64::MAX - (1 << 41)),
            1 => 0x1000 + 8 * random(8),
            _ => 0x7fff_0000 + 8 * index,
        };
        let value = match random(5) {
            0 => None,
            1 => Some(random(u64::MAX) as i64),
            2 => Some(-1),
            _ => Some(random(3) as i64),
        };
        all.push(RecordedEvent {
            address,
            size: if range { size } else { 0 },
            value: value.filter(|_| op.takes_value()),
            written: (op == Op::Rmw && random(2) == 0).then(|| random(1 << 63) as i64),
            location: LocId([0, 1, 7, u32::MAX][random(4) as usize]),
            thread: ThreadId([0, 1, 1, 1, 300, u32::MAX][random(6) as usize]),
            aux: match random(4) {
                0 if op.takes_aux() => random(1 << 32) as u32,
                // As memory orders are.
                1 | 2 if op.takes_aux() => random(6) as u32,
                _ => 0,
            },
            hint: random(3) as u16,
            op,
            seen: false,
        });
    }
    all
}

/// Says of events of a block which values were seen before.
fn look(events: &mut [RecordedEvent]) {
    let mut bytes = std::collections::HashMap::new();
    for event in events.iter_mut().filter(|event| event.op.has_variable() && (1..=8).contains(&event.size)) {
        let Some(value) = event.value else { continue };
        let byte = |at: u64| (*bytes.get(&(event.address + at)).unwrap_or(&0) as u64) << (8 * at);
        event.seen = (0..event.size).map(byte).sum::<u64>() == value as u64;
        let left = event.written.unwrap_or(value);
        (0..event.size).for_each(|at| {
            bytes.insert(event.address + at, (left >> (8 * at)) as u8);
        });
    }
}

fn tables() -> Tables {
    let mut tables = Tables::new();
    tables.variable_range(5, 5);
    ["a", "b", "c"].iter().for_each(|name| {
        tables.variable_named(name);
    });
    tables
}

fn encode(events: &[RecordedEvent], payload: &mut Vec<u8>) {
    let mut encoder = Encoder::new();
    push(&mut encoder, events);
    encoder.finish(payload);
}

fn push(encoder: &mut Encoder, events: &[RecordedEvent]) {
    let mut batch = Batch::default();
    batch.in_block(encoder.block());
    events.iter().for_each(|event| batch.event(*event));
    assert!(batch.events().eq(events.iter().copied()));
    let mut taken = Taken::default();
    assert!(!encoder.push(&batch, &mut taken, usize::MAX) && taken.accesses == events.len());
}

/// What an event should be once it is read.
fn expected(event: &RecordedEvent) -> (Event, Option<Variable>) {
    let variable = event.op.has_variable().then_some(match event.size {
        0 => Variable::Named(event.address as u32),
        size => Variable::Range { address: event.address, size },
    });
    let RecordedEvent { op, thread, aux, location, value, written, .. } = *event;
    let target = if op.has_variable() { 0 } else { event.address as u32 };
    (Event { thread, op, target, aux, location, value, written }, variable)
}

/// Reads a payload in pieces.
fn decode(payload: &[u8], count: usize, tables: &mut Tables, events: &mut Events) -> Result<(), String> {
    let mut decoder = Decoder::new(payload, count)?;
    let mut pieces = [1, 3, 64, 1000].into_iter().cycle().skip(count % 4);
    while decoder.left() > 0 {
        let (before, piece) = (decoder.left(), pieces.next().unwrap_or(1));
        decoder.read(payload, piece, tables, events)?;
        assert_eq!(before - decoder.left(), piece.min(before));
    }
    Ok(())
}

#[test]
fn events_of_all_kinds_come_back() {
    let mut encoder = Encoder::new();
    for seed in 1..60 {
        let count = [1, 2, 50, 3000][seed as usize % 4];
        let mut events = events(seed, count);
        let (mut payload, mut unlooked) = (Vec::new(), Vec::new());
        encode(&events, &mut unlooked);
        look(&mut events);
        push(&mut encoder, &events);
        encoder.finish(&mut payload);
        assert!(count < 3000 || payload.len() < unlooked.len(), "what was seen is not told");
        let (mut tables, mut back) = (tables(), Events::new());
        decode(&payload, count, &mut tables, &mut back).unwrap();
        assert_eq!(back.len(), count);
        for (index, event) in events.iter().enumerate() {
            let (mut wanted, variable) = expected(event);
            let read = back.get(index);
            if let Some(variable) = variable {
                assert_eq!(tables.variable(VarId(read.target)), variable, "event {index} of seed {seed}");
                wanted.target = read.target;
            }
            assert_eq!(read, wanted, "event {index} of seed {seed}");
        }
    }
}

#[test]
fn a_block_does_not_depend_on_the_ones_before() {
    let (first, second) = (events(3, 500), events(4, 500));
    let mut encoder = Encoder::new();
    let (mut after, mut alone) = (Vec::new(), Vec::new());
    push(&mut encoder, &first);
    encoder.finish(&mut Vec::new());
    second.chunks(77).for_each(|some| push(&mut encoder, some));
    encoder.finish(&mut after);
    encode(&second, &mut alone);
    assert_eq!(after, alone);
}

#[test]
fn whatever_the_bytes_nothing_panics_and_cuts_are_noticed() {
    let events = events(9, 400);
    let mut payload = Vec::new();
    encode(&events, &mut payload);
    let read = |bytes: &[u8], count: usize| decode(bytes, count, &mut tables(), &mut Events::new());
    assert!(read(&payload, 400).is_ok());
    for cut in 0..payload.len() {
        assert!(read(&payload[..cut], 400).is_err(), "cut at {cut}");
    }
    assert!(read(&payload, 399).is_err() && read(&payload, 401).is_err());
    let mut longer = payload.clone();
    longer.push(0);
    assert!(read(&longer, 400).is_err());
    for at in 0..payload.len() {
        for bit in [1, 2, 4, 16, 64, 128, 255] {
            let mut wrong = payload.clone();
            wrong[at] ^= bit;
            let _ = read(&wrong, 400);
        }
    }
}

/// A loop over two arrays: what recorded programs mostly do.
#[test]
fn loops_take_less_than_a_byte_an_event_even_uncompressed_but_for_values() {
    let mut all = Vec::new();
    for i in 0..10_000u64 {
        for (hint, op) in [(0, Op::Read), (1, Op::Read), (2, Op::Write)] {
            let address = 0x1000 + 0x10_0000 * hint as u64 + 4 * i;
            let thread = ThreadId((i / 2500) as u32);
            let value = Some(i as i64);
            let location = LocId(1);
            all.push(RecordedEvent {
                address,
                size: 4,
                value,
                written: None,
                location,
                thread,
                aux: 0,
                hint,
                op,
                seen: false,
            });
        }
    }
    let mut payload = Vec::new();
    encode(&all, &mut payload);
    assert!(payload.len() < all.len() * 101 / 100, "{} bytes for {} events", payload.len(), all.len());
}

#[test]
fn a_block_ends_when_it_is_full_or_no_site_has_a_number_left() {
    const SITES: usize = 1 << 16;
    // Twice as many events as sites, then one at a site that is new.
    let at = |site: usize| RecordedEvent {
        address: 8 * site as u64,
        size: 4,
        value: Some(site as i64),
        written: None,
        location: LocId(1 + site as u32),
        thread: ThreadId(0),
        aux: 0,
        hint: 0,
        op: Op::Write,
        seen: false,
    };
    let mut batch = Batch::default();
    (0..SITES).for_each(|site| (0..2).for_each(|_| batch.event(at(site))));
    (0..3).for_each(|_| batch.event(at(SITES)));
    let (mut encoder, mut taken) = (Encoder::new(), Taken::default());
    assert!(encoder.push(&batch, &mut taken, 1000) && taken.accesses == 1000);
    assert!(encoder.push(&batch, &mut taken, usize::MAX) && taken.accesses == 2 * SITES);
    let mut back = Events::new();
    let mut payload = Vec::new();
    encoder.finish(&mut payload);
    decode(&payload, 2 * SITES, &mut tables(), &mut back).unwrap();
    assert_eq!(back.get(2 * SITES - 1).value, Some(SITES as i64 - 1));
    assert!(!encoder.push(&batch, &mut taken, usize::MAX) && taken.accesses == batch.len());
    payload.clear();
    encoder.finish(&mut payload);
    decode(&payload, 3, &mut tables(), &mut back).unwrap();
    assert_eq!(back.get(2 * SITES + 2).location, LocId(1 + SITES as u32));
}
