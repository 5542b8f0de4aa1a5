//! Object trees: what the arguments of missing methods lead to, as readers resolve it.

use snag_formats::TraceReader;
use snag_formats::text_format::TextReader;
use snag_model::tables::Object;
use snag_model::{Op, ReachId, Trace};
use std::collections::BTreeSet;
use std::io::Cursor;

fn read(text: &str) -> Trace {
    let text = format!("%snag 1\n{text}");
    TraceReader::new(Box::new(TextReader::new(Cursor::new(text))), None).read_all().expect("well formed").0
}

/// What each missing method of a trace could reach, spelled and sorted.
fn reached(text: &str) -> Vec<Vec<String>> {
    let trace = read(text);
    let begins = trace.events.iter().filter(|event| event.op == Op::MethodBegin);
    let spelled = |&object: &Object| match object {
        Object::Variable(id) => trace.tables.variable_text(id),
        Object::Lock(id) => format!("lock:{}", trace.tables.lock_name(id)),
        other => format!("{other:?}"),
    };
    let sets = begins.map(|begin| {
        assert!(!trace.tables.are_arguments(ReachId(begin.aux)));
        let mut set: Vec<String> = trace.tables.reach_objects(ReachId(begin.aux)).iter().map(spelled).collect();
        set.sort();
        set
    });
    sets.collect()
}

#[test]
fn arguments_lead_to_themselves_and_on_through_described_members() {
    let sets = reached(
        "T|reach(o,{o.f,p,lock:l})|\nT|reach(p,{q,o})|\nT|method-begin(m,o)|\nT|method-end(m)|\n\
         T|method-begin(m,p,lock:k)|\nT|method-end(m)|\nT|method-begin(m,{o})|\n",
    );
    let both = ["lock:l", "o", "o.f", "p", "q"];
    assert_eq!(sets, [both.to_vec(), ["lock:k"].iter().chain(&both).copied().collect(), vec!["o"]]);
}

#[test]
fn a_second_reach_takes_the_place_of_the_first_from_there_on() {
    let sets = reached(
        "T|reach(o,{x})|\nT|method-begin(m,o)|\nT|reach(o,{y})|\nU|method-begin(m,o)|\nU|reach(y,{z})|\n\
         U|method-begin(m,o)|\n",
    );
    assert_eq!(sets, [vec!["o", "x"], vec!["o", "y"], vec!["o", "y", "z"]]);
}

#[test]
fn a_reference_that_is_written_changes_the_tree_below_it() {
    // o is 0x1000, with a field at 0x1008; p is 0x2000 and q is 0x3000.
    let sets = reached(
        "T|reach(0x1000:16,{})|\nT|reach(0x2000:8,{lock:p})|\nT|reach(0x3000:8,{lock:q})|\n\
         T|method-begin(m,0x1000:16)|\n\
         U|w(0x1008:8)=8192|\nT|method-begin(m,0x1000:16)|\n\
         U|atomic-w(0x1008:8,seq_cst)=12288|\nT|method-begin(m,0x1000:16)|\n\
         U|w(0x1008:8)|\nT|method-begin(m,0x1000:16)|\n\
         U|rmw(0x1008:8,seq_cst)=12288:0|\nT|method-begin(m,0x1000:16)|\n",
    );
    let with =
        |more: &[&str]| -> Vec<String> { ["0x1000:16"].iter().chain(more).map(|text| (*text).to_owned()).collect() };
    let q = with(&["0x1008:8", "0x3000:8", "lock:q"]);
    assert_eq!(sets, [with(&[]), with(&["0x1008:8", "0x2000:8", "lock:p"]), q.clone(), q, with(&["0x1008:8"])]);
}

#[test]
fn what_was_said_about_a_field_stays_beside_what_is_written_to_it() {
    let sets = reached(
        "T|reach(0x1000:8,{lock:l})|\nT|reach(0x2000:8,{lock:p})|\nT|reach(f,{lock:f})|\n\
         T|w(0x1000:8)=8192|\nT|w(f)=8192|\nT|method-begin(m,0x1000:8)|\nT|method-begin(m,f)|\n\
         T|w(0x1000:8)=1|\nT|w(f)=0|\nT|method-begin(m,0x1000:8)|\nT|method-begin(m,f)|\n",
    );
    let o = vec!["0x1000:8", "0x2000:8", "lock:l", "lock:p"];
    let f = vec!["0x2000:8", "f", "lock:f", "lock:p"];
    assert_eq!(sets, [o.clone(), f.clone(), o, f]);
}

/// The address of a field, of an element or of the end of a list inside a larger object is a reference to all of it.
#[test]
fn an_address_inside_an_object_is_a_reference_to_it() {
    let mut text = "T|reach(0x1000:16,{})|\nT|reach(0x2000:64,{lock:p})|\nT|reach(0x2040:8,{lock:q})|\n".to_owned();
    for address in [0x2020, 0x203f, 0x2040, 0x2048] {
        text += &format!("T|w(0x1008:8)={address}|\nT|method-begin(m,0x1000:16)|\n");
    }
    let p = vec!["0x1000:16", "0x1008:8", "0x2000:64", "lock:p"];
    let q = vec!["0x1000:16", "0x1008:8", "0x2040:8", "lock:q"];
    assert_eq!(reached(&text), [p.clone(), p, q, vec!["0x1000:16", "0x1008:8"]]);
}

/// Resolved sets against a closure that is computed anew for each call, on random graphs of named objects.
#[test]
fn random_trees_are_followed_as_a_naive_closure_follows_them() {
    let mut state = 7u64;
    let mut random = |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    for _ in 0..300 {
        let mut text = String::new();
        let mut graph: Vec<Option<BTreeSet<u64>>> = vec![None; 8];
        let mut expected: Vec<Vec<String>> = Vec::new();
        for _ in 0..40 {
            let from = random(8);
            if random(2) == 0 {
                let to: BTreeSet<u64> = (0..random(3)).map(|_| random(8)).collect();
                let members: Vec<String> = to.iter().map(|object| format!("o{object}")).collect();
                text += &format!("T|reach(o{from},{{{}}})|\n", members.join(","));
                graph[from as usize] = Some(to);
            } else if graph[from as usize].is_some() {
                text += &format!("T|method-begin(m,o{from})|\n");
                let mut all = BTreeSet::from([from]);
                for _ in 0..8 {
                    let more: Vec<u64> =
                        all.iter().flat_map(|&o| graph[o as usize].clone().unwrap_or_default()).collect();
                    all.extend(more);
                }
                expected.push(all.iter().map(|object| format!("o{object}")).collect());
            }
        }
        if !text.is_empty() {
            assert_eq!(reached(&text), expected, "{text}");
        }
    }
}
