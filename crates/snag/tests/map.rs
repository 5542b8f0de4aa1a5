//! The map of the crates in CONTRIBUTING.md is the one that cargo sees.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A crate: its folder, and the crates of the workspace that it needs to be built.
#[derive(Debug, PartialEq)]
struct Entry {
    folder: String,
    needs: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).expect("a workspace")
}

/// `snag-model` is `model` in the column of dependencies.
fn short(name: &str) -> String {
    name.strip_prefix("snag-").unwrap_or(name).to_owned()
}

fn by_cargo() -> BTreeMap<String, Entry> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let entry = |package: &Value| {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent().and_then(|folder| folder.strip_prefix(root()).ok());
        let mut needs: Vec<String> = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .filter(|needed| needed["kind"].is_null() && !needed["path"].is_null())
            .map(|needed| short(&text(&needed["name"])))
            .collect();
        needs.sort();
        let folder = folder.expect("a folder of the workspace").display().to_string();
        (text(&package["name"]), Entry { folder, needs })
    };
    packages.iter().map(entry).collect()
}

/// The rows of the table below the heading "Layers": crate, folder, what it does, what it needs.
fn by_map() -> BTreeMap<String, Entry> {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let (_, section) = text.split_once("## Layers").expect("a section on layers");
    let section = section.split("\n## ").next().expect("a beginning");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let entry = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, folder, _, needs] = cells[..] else { panic!("four columns: {row}") };
        let mut needs: Vec<String> =
            needs.split(',').map(str::trim).filter(|needed| *needed != "–").map(str::to_owned).collect();
        needs.sort();
        (name.trim_matches('`').to_owned(), Entry { folder: folder.trim_matches('`').to_owned(), needs })
    };
    rows.map(entry).collect()
}

#[test]
fn the_map_of_the_crates_is_what_cargo_sees() {
    assert_eq!(by_map(), by_cargo());
}
