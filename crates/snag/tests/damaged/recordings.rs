//! Recordings whose references lead nowhere, or in a circle.

use crate::blocks::{Block, EXTRA, number, put, put_together, settle, take_apart};
use crate::running::{Folder, Ran, snag};
use crate::seeds::recorded;

const STRETCH: u8 = 1;
const NAMES: u8 = 2;
const DATA: u8 = 5;
const THREADS: u8 = 6;
const SITES: u8 = 7;

/// The numbers of a payload of names: where the strings end, the frames, the calls.
struct Names {
    strings: Vec<u8>,
    string_count: u64,
    /// Program counter and pairs of strings.
    frames: Vec<(u64, Vec<(u64, u64)>)>,
    calls: Vec<(u64, u64)>,
}

impl Names {
    fn read(payload: &[u8]) -> Names {
        let mut at = 1;
        let next = |at: &mut usize| {
            let (value, end) = number(payload, *at);
            *at = end;
            value
        };
        let string_count = next(&mut at);
        let from = at;
        for _ in 0..string_count {
            at += next(&mut at) as usize;
        }
        let strings = payload[from..at].to_vec();
        let frames = (0..next(&mut at)).map(|_| {
            let pc = next(&mut at);
            let count = next(&mut at);
            (pc, (0..count).map(|_| (next(&mut at), next(&mut at))).collect())
        });
        let frames = frames.collect();
        let calls = (0..next(&mut at)).map(|_| (next(&mut at), next(&mut at))).collect();
        Names { strings, string_count, frames, calls }
    }

    fn payload(&self) -> Vec<u8> {
        let mut out = vec![NAMES];
        put(&mut out, self.string_count);
        out.extend(&self.strings);
        put(&mut out, self.frames.len() as u64);
        for (pc, texts) in &self.frames {
            put(&mut out, *pc);
            put(&mut out, texts.len() as u64);
            texts.iter().flat_map(|&(function, place)| [function, place]).for_each(|id| put(&mut out, id));
        }
        put(&mut out, self.calls.len() as u64);
        self.calls.iter().flat_map(|&(caller, frame)| [caller, frame]).for_each(|id| put(&mut out, id));
        out
    }
}

/// A recording and what changes of it are made of.
struct Victim {
    folder: Folder,
    blocks: Vec<Block>,
}

impl Victim {
    fn new(name: &str) -> Option<Victim> {
        let folder = Folder::new(name);
        let blocks = take_apart(&std::fs::read(recorded(&folder, &[], "victim.snag")?).unwrap());
        Some(Victim { folder, blocks })
    }

    /// Checks the recording with the payloads of its extra blocks of a kind changed.
    fn check(&self, kind: u8, change: impl Fn(&mut Vec<u8>)) -> Ran {
        let mut blocks = self.blocks.clone();
        let extras = blocks.iter_mut().filter(|block| block.kind == EXTRA && block.payload[0] == kind);
        extras.for_each(|block| change(&mut block.payload));
        self.check_all(blocks)
    }

    fn check_all(&self, mut blocks: Vec<Block>) -> Ran {
        settle(&mut blocks);
        let file = self.folder.file("changed.snag", put_together(&blocks, true));
        snag(&self.folder.0, &["check", file.to_str().unwrap()])
    }

    fn check_names(&self, change: impl Fn(&mut Names)) -> Ran {
        self.check(NAMES, |payload| {
            let mut names = Names::read(payload);
            change(&mut names);
            *payload = names.payload();
        })
    }
}

/// An error that names the file, the block and the rule.
fn refused(ran: Ran, rule: &str) {
    let Ran { stdout, stderr, .. } = ran.expect(2);
    assert!(stderr.contains("changed.snag: byte ") && stderr.contains(rule), "{rule}: {stderr}");
    assert!(!stdout.contains("R1"), "{stdout}");
}

#[test]
fn a_cycle_in_the_call_tree_is_refused() {
    let Some(victim) = Victim::new("cycle") else { return };
    victim.check_names(|_| {}).expect(1);
    let own = |names: &mut Names| (1..).zip(&mut names.calls).for_each(|(i, call)| call.0 = i);
    refused(victim.check_names(own), "caller 1 is not known at this place");
    let pair = |names: &mut Names| (names.calls[0].0, names.calls[1].0) = (2, 1);
    refused(victim.check_names(pair), "caller 2 is not known at this place");
    let bare = |names: &mut Names| (1..).zip(&mut names.calls).for_each(|(i, call)| *call = (i, 0));
    refused(victim.check_names(bare), "caller 1 is not known at this place");
    let last = |names: &mut Names| names.calls[0].0 = names.calls.len() as u64;
    refused(victim.check_names(last), "is not known at this place");
    refused(victim.check_names(|names| names.calls[0].0 = u64::MAX), "is not known at this place");
}

#[test]
fn what_a_recording_refers_to_must_be_there() {
    let Some(victim) = Victim::new("refers") else { return };
    refused(victim.check_names(|names| names.calls[0].1 = names.frames.len() as u64), "frame ");
    refused(victim.check_names(|names| names.frames[0].1[0].0 = names.string_count), "string ");
    refused(victim.check_names(|names| names.frames[0].1[0].1 = 1 << 40), "string ");
    let payload = |kind: u8, numbers: &[u64]| {
        let numbers = numbers.to_vec();
        victim.check(kind, move |payload| {
            payload.truncate(1);
            numbers.iter().for_each(|&number| put(payload, number));
        })
    };
    // First event, threads, calls, steps.
    refused(payload(STRETCH, &[0, 1, 1 << 20, 0, 0, 0]), "call 1048576 is not known");
    refused(payload(STRETCH, &[0, 0, 1, 0, 1 << 20, 0]), "call 1048576 is not known");
    refused(payload(STRETCH, &[0, 0, 1, 1 << 30, 0, 0]), "a stretch means an event that it does not have");
    refused(payload(STRETCH, &[0, 0, 2, 0, 0, 0, 0, 0]), "a stretch means an event that it does not have");
    refused(payload(STRETCH, &[0, 0, 0, 1, u64::MAX, 0]), "a stretch means an event that it does not have");
    refused(payload(STRETCH, &[0, 0, 0, 1, 100_000, 0]), "a block means event 100000, and the recording has ");
    refused(payload(DATA, &[1, u64::MAX, 8, 1, 65]), "reaches over the last address");
    refused(payload(THREADS, &[1, 1000, 1, 65]), "a block means thread 1000");
    refused(payload(SITES, &[1, 100_000, 0]), "a block means location 100000");
    refused(payload(SITES, &[1 << 50]), "ends in the middle of an entry");
    refused(payload(NAMES, &[0, 0, 0, 7]), "1 bytes too many");
}

#[test]
fn stretches_do_not_overlap() {
    let Some(victim) = Victim::new("overlap") else { return };
    let mut blocks = victim.blocks.clone();
    let stretch = |block: &&Block| block.kind == EXTRA && block.payload[0] == STRETCH;
    let again = blocks.iter().find(stretch).unwrap().clone();
    let at = blocks.iter().rposition(|block| block.kind == EXTRA).unwrap();
    blocks.insert(at + 1, again);
    refused(victim.check_all(blocks), "a stretch from event 0 on, after one that goes further");
}

/// A chain of callers that is as long as a block allows, every one of them with a long name.
#[test]
fn a_stack_that_is_deeper_than_any_is_shown_in_part() {
    let Some(victim) = Victim::new("deep") else { return };
    let ran = victim.check_names(|names| {
        put(&mut names.strings, 10_000);
        names.strings.extend([b'f'; 10_000]);
        names.frames.push((0, vec![(names.string_count, names.string_count); 1000]));
        names.string_count += 1;
        let frame = names.frames.len() as u64 - 1;
        names.calls.iter_mut().for_each(|call| call.1 = frame);
    });
    let ran = ran.expect(1);
    assert!(ran.stdout.contains("R1") && ran.stdout.len() < 100 << 20, "{} bytes", ran.stdout.len());
}
