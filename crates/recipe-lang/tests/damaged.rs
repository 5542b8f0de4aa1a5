//! Whatever the text, there is a message or a program; and whatever the program, its runs are well-formed traces.

use snag_model::Validator;
use snag_recipe_lang::{Plan, compile, explore, random, run};
use snag_synthesis::Rng;

const WORDS: [&str; 44] = [
    "shared", "int", "u8", "i16", "integer", "ref", "lock", "cond", "thread", "main", "class", "object", "if", "else",
    "while", "for", "fork", "join", "return", "break", "continue", "print", "assert", "wait", "notify", "x", "y", "T1",
    "a", "0", "1", "255", "-", "+", "/", "<<", "&&", "(", ")", "{", "}", "[", "]", ";",
];

/// Takes out, doubles, swaps or replaces words of a program.
fn damage(text: &str, random: &mut Rng) -> String {
    let mut words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
    for _ in 0..1 + random.below(4) {
        let at = random.below(words.len());
        match random.below(4) {
            0 => _ = words.remove(at),
            1 => words.insert(at, words[at]),
            2 => {
                let other = random.below(words.len());
                words.swap(at, other);
            }
            _ => words[at] = random.pick(&WORDS),
        }
        if words.is_empty() {
            break;
        }
    }
    words.concat()
}

#[test]
fn damaged_programs_are_refused_or_run() {
    let (mut refused, mut ran) = (0, 0);
    for seed in 0..4000 {
        let mut random = Rng::new(seed);
        let text = damage(&random::program(seed), &mut random);
        match compile("p", &text) {
            Err(mistake) => {
                refused += 1;
                let shown = mistake.show("p", &text).to_string();
                assert!(shown.starts_with("p:") && shown.contains('^'), "{shown}");
            }
            Ok(program) => {
                ran += 1;
                let plan = Plan { seed, most_events: 500, ..Plan::default() };
                let trace = run(&program, &plan).unwrap().trace;
                if let Err(broken) = Validator::new().check(&trace.events, 0, &trace.tables) {
                    panic!("event {}: {broken}\n{text}", broken.event);
                }
                explore(&program, 300);
            }
        }
    }
    println!("{refused} refused, {ran} ran");
    assert!(refused > 500 && ran > 200);
}
