//! The figures of the Recipe paper.

mod support;

use snag_model::Level;
use snag_recipe_lang::{Explored, explore};
use support::*;

const FIGURE_1: &str = include_str!("../../../examples/recipe/figure1.rcp");
const FIGURE_2: &str = include_str!("../../../examples/recipe/figure2.rcp");
const FIGURE_4: &str = include_str!("../../../examples/recipe/figure4.rcp");

/// The races of a program as pairs of lines.
fn races(explored: &Explored) -> Vec<(u32, u32)> {
    assert!(explored.complete);
    let line = |location: &str| location.rsplit(':').next().unwrap().parse().unwrap();
    let mut all: Vec<(u32, u32)> =
        explored.races.iter().map(|race| (line(&race.first.location), line(&race.second.location))).collect();
    all.iter_mut().for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1)));
    all.sort();
    all.dedup();
    all
}

#[test]
fn figure_1_as_a_trace() {
    let trace = traced("figure1.rcp", FIGURE_1, "T1,T2");
    assert_eq!(
        text(&trace),
        "%snag 1
%init x 0
%init y 0
%init z 2
T1|w(y)=3<-3|figure1.rcp:7
T1|w(x)=1<-1|figure1.rcp:8
T1|w(y)=5<-5|figure1.rcp:9
T2|r(y)=5->y.3|figure1.rcp:12
T2|r(z)=2->z.4|figure1.rcp:12
T2|branch((< z.4 y.3))=1|figure1.rcp:12
T2|else-r(x)->x.6|figure1.rcp:15
T2|r(x)=1->x.7|figure1.rcp:13
T2|branch{divisor}((!= x.7 0))=1|figure1.rcp:13
T2|branch{output}((= (/ 1 x.7) 1))=1|figure1.rcp:13
"
    );
    // Lines 2 and 5 of the paper, by values; lines 2 and 7, by the other way of the branch.
    accepted(&trace, &[0, 3, 4, 5, 6], &[], &[(3, 3), (4, 2)], [1, 7]);
    accepted(&trace, &[3, 4, 5, 0], &[5], &[(3, 0), (4, 2)], [1, 6]);
}

#[test]
fn figure_1_as_it_is() {
    let program = compiled("figure1.rcp", FIGURE_1);
    // Both races of the paper, and the accesses to y.
    assert_eq!(races(&explore(&program, 10_000)), [(7, 12), (8, 13), (8, 15), (9, 12)]);
    // With z = 4 line 5 is reached only after line 3: the first one is gone.
    let four = compiled("figure1.rcp", &FIGURE_1.replace("z = 2", "z = 4"));
    assert_eq!(races(&explore(&four, 10_000)), [(7, 12), (8, 15), (9, 12)]);
}

/// A trace as the paper shows it: what is read stands where it is used, events are numbered from 0, and the numbers of
/// symbols are those of the events that define them.
fn as_in_the_paper(text: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    // Our symbols and those of the paper.
    let mut names: Vec<(String, String)> = Vec::new();
    let mut pending: Vec<(String, String)> = Vec::new();
    let infix = |expression: &str| -> String {
        let inner = expression.trim_start_matches('(').trim_end_matches(')');
        match inner.split(' ').collect::<Vec<_>>()[..] {
            [operator, a, b] => format!("{a}{operator}{b}"),
            _ => inner.to_owned(),
        }
    };
    for line in text.lines().filter(|line| line.contains('|')) {
        let operation = line.split('|').nth(1).unwrap();
        let number = rows.len();
        let replace = |text: &str, names: &[(String, String)], pending: &[(String, String)]| {
            let mut text = infix(text);
            for (symbol, name) in pending {
                text = text.replace(symbol.as_str(), &format!("R_{name}^{number}"));
            }
            for (symbol, name) in names {
                text = text.replace(symbol.as_str(), name);
            }
            text
        };
        if let Some(write) = operation.strip_prefix("w(") {
            let (variable, rest) = write.split_once(')').unwrap();
            let value = rest.split_once("<-").unwrap().1;
            rows.push(format!("W_{variable}^{number}={}", replace(value, &names, &pending)));
        } else if let Some(read) = operation.strip_prefix("r(") {
            let (variable, rest) = read.split_once(')').unwrap();
            pending.push((rest.split_once("->").unwrap().1.to_owned(), variable.to_owned()));
            continue;
        } else if let Some(definition) = operation.strip_prefix("let(") {
            let (symbol, value) = definition.split_once(")=").unwrap();
            let name = symbol.split('.').next().unwrap();
            rows.push(format!("{name}^{number}={}", replace(value, &names, &pending)));
            names.push((symbol.to_owned(), format!("{name}^{number}")));
        } else if let Some(printed) = operation.strip_prefix("branch{output}") {
            let symbol = printed.trim_start_matches("((= ").split(' ').next().unwrap();
            rows.push(format!("print({})", replace(symbol, &names, &pending)));
        } else if let Some(branch) = operation.strip_prefix("branch(") {
            rows.push(replace(branch.split_once("))=").unwrap().0, &names, &pending));
        } else {
            continue;
        }
        pending.clear();
    }
    rows
}

#[test]
fn figure_2_gives_exactly_the_symbolic_trace_of_figure_3() {
    let trace = traced("figure2.rcp", FIGURE_2, "main,T1,T2");
    assert_eq!(
        as_in_the_paper(&text(&trace)),
        [
            "W_x^0=0",
            "W_y^1=0",
            "s^2=0",
            "i^3=1",
            "i^3<3",
            "s^5=s^2+i^3",
            "i^6=2",
            "i^6<3",
            "s^8=s^5+i^6",
            "i^9=3",
            "i^9<3",
            "W_y^11=s^8",
            "W_x^12=1",
            "W_y^13=5",
            "R_y^14>2",
            "tmp^15=R_x^15+1",
            "print(tmp^15)",
        ]
    );
}

#[test]
fn the_races_of_the_running_example() {
    let program = compiled("figure2.rcp", FIGURE_2);
    assert_eq!(races(&explore(&program, 100_000)), [(15, 20), (16, 21), (16, 24), (17, 20)]);
    let trace = traced("figure2.rcp", FIGURE_2, "main,T1,T2");
    let text = text(&trace);
    let number = |what: &str| {
        text.lines().filter(|line| line.contains('|')).position(|line| line.contains(what)).unwrap() as u32
    };
    // Both sides of the branch, each with the events of its thread before.
    let (write, then, other) = (number("w(x)=1"), number("r(x)=1->"), number("else-r(x)"));
    let of = |thread: &str, before: u32| -> Vec<u32> {
        let lines = text.lines().filter(|line| line.contains('|')).enumerate();
        let before = |number: u32, line: &str| number < before && line.starts_with(thread);
        lines.filter(|(number, line)| before(*number as u32, line)).map(|(number, _)| number as u32).collect()
    };
    let (read, branch) = (number("r(y)=5->"), number("branch((> y."));
    let main = of("main|", u32::MAX);
    // y = s is 3, which is more than 2 as well.
    accepted(&trace, &[main.clone(), of("T1|", write), of("T2|", then)].concat(), &[], &[(read, 3)], [write, then]);
    let first = [main, of("T2|", other), of("T1|", write)].concat();
    accepted(&trace, &first, &[branch], &[(read, 0)], [write, other]);
    assert!(refused_at(&trace, &first, [write, other], Level::Control));
}

#[test]
fn figure_4_the_value_flow_through_either_class() {
    let trace = traced("figure4.rcp", FIGURE_4, "caller,other");
    assert_eq!(
        lines_of(&trace, "caller"),
        [
            "r(o)=1->o.0|figure4.rcp:23",
            "r(y)=4->y.1|figure4.rcp:23",
            "branch{class}((= o.0 1))=1|figure4.rcp:23",
            "let(ARG0.3)=y.1|figure4.rcp:23",
            "let(y1.4)=ARG0.3|figure4.rcp:23",
            "let(i.5)=y1.4|figure4.rcp:4",
            "let(i2.6)=(* 2 i.5)|figure4.rcp:5",
            "let(RET.7)=i2.6|figure4.rcp:6",
            "w(x)=8<-RET.7|figure4.rcp:23",
        ]
    );
    let trace = traced("figure4.rcp", FIGURE_4, "other,caller");
    assert_eq!(
        lines_of(&trace, "caller"),
        [
            "r(o)=2->o.2|figure4.rcp:23",
            "r(y)=7->y.3|figure4.rcp:23",
            "branch{class}((= o.2 2))=1|figure4.rcp:23",
            "let(ARG0.5)=y.3|figure4.rcp:23",
            "let(y2.6)=ARG0.5|figure4.rcp:23",
            "let(j.7)=y2.6|figure4.rcp:11",
            "let(j2.8)=(* 3 j.7)|figure4.rcp:12",
            "let(RET.9)=j.7|figure4.rcp:13",
            "w(x)=7<-RET.9|figure4.rcp:23",
        ]
    );
    assert_eq!(races(&explore(&compiled("figure4.rcp", FIGURE_4), 10_000)), [(23, 26), (23, 27)]);
}
