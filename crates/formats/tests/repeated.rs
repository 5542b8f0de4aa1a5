//! Lines of STD that were read before are not taken apart again; nobody may notice. Lines that end in CR LF are always taken
//! apart one by one, so the same text with either line end must give the same trace, or the same error.

mod common;

use common::{Random, read_as};
use snag_formats::open::Format;
use std::fmt::Write;

/// A line of names of many lengths, some of them longer than what is remembered and some the beginning of others.
fn line(random: &mut Random, names: usize) -> String {
    let name = |random: &mut Random| {
        let number = random.below(names);
        match number % 4 {
            0 => "x".repeat(1 + number % 23),
            1 => format!("{number}"),
            _ => format!("v{number}"),
        }
    };
    let thread = format!("T{}", random.below(4));
    let location = if random.one_in(5) { String::new() } else { name(random) };
    match random.below(40) {
        0 => format!("{thread}|branch|{location}"),
        1 => format!("{thread}|dummy({})|{location}", name(random)),
        _ => format!("{thread}|{}({})|{location}", random.pick(&["r", "w"]), name(random)),
    }
}

/// As text of either line end.
fn both(lines: &[String]) -> [Vec<u8>; 2] {
    ["\n", "\r\n"].map(|end| {
        let mut text = String::new();
        lines.iter().for_each(|line| write!(text, "{line}{end}").unwrap());
        text.into_bytes()
    })
}

#[test]
fn repeated_lines_are_read_like_new_ones() {
    let mut random = Random::new(7);
    // Few different lines are remembered, too many are not, and a change of habits is noticed.
    for habits in [&[3][..], &[12], &[3000], &[4, 3000, 5], &[2000, 6]] {
        let mut lines = Vec::new();
        for &names in habits {
            lines.extend((0..30_000).map(|_| line(&mut random, names)));
        }
        let [plain, slow] = both(&lines).map(|bytes| read_as(Format::Std, &bytes).unwrap());
        assert_eq!(plain.events, slow.events, "{habits:?}");
        for space in [snag_model::Space::Thread, snag_model::Space::VariableName, snag_model::Space::Location] {
            let (one, other) = (plain.tables.names(space), slow.tables.names(space));
            assert_eq!(one.len(), other.len());
            assert!((0..one.len()).all(|i| one.get(i) == other.get(i)), "{space:?}");
        }
    }
}

#[test]
fn a_known_beginning_makes_no_known_line() {
    let mut lines: Vec<String> = ["T|r(x)|A", "T|w(x)|A"].repeat(20_000).into_iter().map(str::to_owned).collect();
    for bad in ["T|r(x)|A|B", "T|r(x)|A|", "T|r(x)", "T|r(x)|A\r", "|r(x)|A", "T|r(x|A"] {
        lines.push(bad.to_owned());
        lines.push("T|r(x)|A".to_owned());
        let [plain, _] = both(&lines);
        let error = read_as(Format::Std, &plain).unwrap_err().to_string();
        assert!(error.contains("40001"), "{bad}: {error}");
        lines.truncate(40_000);
    }
}

#[test]
fn lines_that_are_almost_known_are_read_like_new_ones() {
    let mut random = Random::new(8);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..200 {
        let pool: Vec<String> = (0..20).map(|_| line(&mut random, 6)).collect();
        // Long enough to be remembered, and then with slips.
        let mut lines: Vec<Vec<u8>> = (0..5_000).map(|_| random.pick(&pool).clone().into_bytes()).collect();
        for _ in 0..1 + random.below(3) {
            let line = 4_500 + random.below(500);
            let at = random.below(lines[line].len());
            lines[line][at] = *random.pick(b"\0\xff|()rwx1vT");
        }
        let [plain, slow] = [&b"\n"[..], b"\r\n"].map(|end| {
            let text: Vec<u8> = lines.iter().flat_map(|line| [line, end].concat()).collect();
            read_as(Format::Std, &text).map(|trace| trace.events).map_err(|error| error.to_string())
        });
        *(if plain.is_ok() { &mut read } else { &mut refused }) += 1;
        assert_eq!(plain, slow);
    }
    assert!(read > 20 && refused > 20, "{read} read, {refused} refused");
}
