//! The JSON output keeps its contract: `docs/findings.schema.json`.

use crate::support::*;
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// The published schema, compiled.
struct Contract {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Contract {
    fn load() -> Contract {
        let mut schemas = Schemas::new();
        let index = Compiler::new()
            .compile(&repository("docs/findings.schema.json"), &mut schemas)
            .unwrap_or_else(|error| panic!("the schema itself: {error:#}"));
        Contract { schemas, index }
    }

    fn problem(&self, document: &Value) -> Option<String> {
        self.schemas.validate(document, self.index).err().map(|error| format!("{error:#}"))
    }

    fn check(&self, args: &[&str]) -> Value {
        let mut all = vec!["check", "--format", "json"];
        all.extend(args);
        let ran = snag(&all);
        let document: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", ran.stderr));
        if let Some(problem) = self.problem(&document) {
            panic!("{args:?}: {problem}");
        }
        document
    }
}

#[test]
fn real_output_satisfies_the_schema() {
    let contract = Contract::load();
    let folder = Folder::new("schema");
    let suppressions = folder.file("s.txt", "race:x\n");
    let nowhere = folder.file("nowhere.std", "T1|w(x)|\nT2|w(x)|\n");
    let odd = folder.file("odd.std", "T\"1\\|w(x\u{1f600})|\tA\nT2|w(x\u{1f600})|B\u{1}\n");
    let all = "hb,hb-vc,fhb,shb,shb-vc,lockset";
    for name in ["fig1", "fig2", "fig3", "fig4", "fig5a", "fig5b"] {
        contract.check(&[&figure(name)]);
        contract.check(&["--engine", all, "--candidates", &figure(name)]);
    }
    contract.check(&["--all-pairs", "--engine", all, "--candidates", &figure("fig3")]);
    contract.check(&["--suppressions", &suppressions, &figure("fig2")]);
    contract.check(&["--budget", "0", &figure("fig4")]);
    contract.check(&[&figure("fig1"), &folder.path("missing.std"), &odd]);
    contract.check(&[&folder.path("missing.std")]);
    let document = contract.check(&[&nowhere]);
    assert_eq!(document["traces"][0]["races"][0]["first"]["location"], "0", "the event number stands in");
    let document = contract.check(&[&odd]);
    assert_eq!(document["traces"][0]["races"][0]["first"]["thread"], "T\"1\\");
}

#[test]
fn the_members_are_those_of_the_interface() {
    let document = Contract::load().check(&["--engine", "hb", "--candidates", &figure("fig1")]);
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let trace = &document["traces"][0];
    assert_eq!(members(&document), "snag traces");
    assert_eq!(members(trace), "candidates deadlocks engines events locks path races threads variables");
    assert_eq!(
        members(&trace["engines"][0]),
        "complete events_per_second location_pairs name peak_memory_bytes seconds warnings"
    );
    let race = "count engine first id level locks_first locks_second reads second verified witness";
    assert_eq!(members(&trace["races"][0]), race);
    assert_eq!(members(&trace["races"][0]["first"]), "event location op stack thread variable");
    assert_eq!(
        members(&trace["candidates"][0]),
        "count engine first id level locks_first locks_second reads reason second verified witness"
    );
}

#[test]
fn the_witness_of_a_figure_is_the_one_of_the_paper() {
    let document = Contract::load().check(&[&figure("fig2")]);
    let races = document["traces"][0]["races"].as_array().unwrap();
    let pairs: Vec<_> = races
        .iter()
        .map(|race| (race["first"]["event"].as_u64(), race["second"]["event"].as_u64(), race["witness"].to_string()))
        .collect();
    assert_eq!(
        pairs,
        [
            (Some(1), Some(2), r#"{"counts":{"t1":1},"then":[]}"#.to_owned()),
            (Some(0), Some(3), r#"{"counts":{"t2":1},"then":[]}"#.to_owned())
        ]
    );
}

#[test]
fn witnesses_are_the_same_in_both_forms() {
    let contract = Contract::load();
    for (name, engine) in [("fig3", "mc"), ("fig4", "mc"), ("fig5b", "shb")] {
        let compact = contract.check(&["--engine", engine, &figure(name)]);
        let full = contract.check(&["--engine", engine, "--witness", "full", &figure(name)]);
        let text = std::fs::read_to_string(figure(name)).unwrap();
        let threads: Vec<&str> = text.lines().map(|line| line.split('|').next().unwrap()).collect();
        let races = |document: &Value| document["traces"][0]["races"].as_array().unwrap().clone();
        assert_eq!(races(&compact).len(), races(&full).len());
        for (compact, full) in races(&compact).iter().zip(&races(&full)) {
            let mut left = compact["witness"]["counts"].as_object().unwrap().clone();
            let mut events = Vec::new();
            for (number, thread) in threads.iter().enumerate() {
                if let Some(count) = left.get_mut(*thread).filter(|count| count.as_u64().unwrap() > 0) {
                    *count = (count.as_u64().unwrap() - 1).into();
                    events.push(json!(number));
                }
            }
            events.extend(compact["witness"]["then"].as_array().unwrap().clone());
            assert_eq!(full["witness"], Value::Array(events), "{name}: {}", compact["id"]);
        }
    }
}

#[test]
fn the_schema_refuses_what_is_not_a_finding() {
    let contract = Contract::load();
    let document = contract.check(&["--engine", "hb", "--candidates", &figure("fig1")]);
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut copy = document.clone();
        change(&mut copy);
        contract.problem(&copy)
    };
    assert_eq!(broken(&|_| {}), None);
    assert_eq!(broken(&|d| d["new"] = 1.into()), None, "additions to the document are allowed");
    let witness = |d: &mut Value, witness: Value| d["traces"][0]["races"][0]["witness"] = witness;
    for form in [json!([0]), json!({"counts": {}, "then": [0]}), json!({"counts": {"T1": 1}, "turns": [3]})] {
        assert_eq!(broken(&|d| witness(d, form.clone())), None, "{form}");
    }
    let mistakes: [&dyn Fn(&mut Value); 11] = [
        &|d| d["snag"] = 1.into(),
        &|d| d["traces"][0]["races"][0]["verified"] = false.into(),
        &|d| witness(d, json!([-1])),
        &|d| witness(d, json!({"counts": {"T1": 1}})),
        &|d| witness(d, json!({"counts": {"T1": 1}, "then": [], "turns": []})),
        &|d| witness(d, json!({"counts": {"T1": -1}, "then": []})),
        &|d| d["traces"][0]["races"][0]["id"] = "X1".into(),
        &|d| d["traces"][0]["races"][0]["first"]["extra"] = 1.into(),
        &|d| d["traces"][0]["candidates"][0]["verified"] = true.into(),
        &|d| d["traces"][0]["engines"][0]["complete"] = "yes".into(),
        &|d| _ = d["traces"][0]["races"][0].as_object_mut().unwrap().remove("witness"),
    ];
    for (number, mistake) in mistakes.iter().enumerate() {
        assert!(broken(mistake).is_some(), "mistake {number}");
    }
}
