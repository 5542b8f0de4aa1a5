//! Models as files: what is read, what is refused, and what comes out of the table.

use snag_models::{Model, Models};
use snag_wire::models::{Table, effect, limit, success};
use std::path::Path;

fn read(text: &str) -> Result<Model, String> {
    Model::parse(text, Path::new("lib.toml")).map_err(|error| error.to_string())
}

fn refused(functions: &str) -> String {
    read(&format!("library = \"L\"\n[functions]\n{functions}\n")).expect_err("it has a mistake")
}

#[test]
fn a_mistake_is_said_with_its_file_its_line_and_what_is_expected() {
    let cases = [
        ("f = \"acquir\"", "lib.toml:3: one of the effects unknown, pure, arguments, acquire,"),
        ("f = 3", "lib.toml:3: an effect, or a table with one, is expected, not 3"),
        ("f = { lock = 1 }", "lib.toml:3: 'f' has no effect: 'effect = \"...\"' is missing"),
        ("f = { effect = \"acquire\" }", "'acquire' needs 'lock = N', the number of an argument of 'f'"),
        ("f = { effect = \"acquire\", lock = 0 }", "the number of an argument, from 1 to 32, is expected, not 0"),
        ("f = { effect = \"acquire\", lock = \"m\" }", "is expected, not \"m\""),
        ("f = { effect = \"acquire\", lock = 1, mode = \"both\" }", "one of read, write is expected, not \"both\""),
        (
            "f = { effect = \"release\", lock = 1, try = \"g\" }",
            "'try' means nothing for 'release', which takes lock, bit",
        ),
        ("f = { effect = \"acquire\", lock = 1, try = \"g\" }", "'g' is to be described here, too, as 'try-acquire'"),
        ("f = { effect = \"wait\", condition = 1 }", "'wait' needs 'lock = N'"),
        ("f = { effect = \"atomic-read\", object = 1 }", "'atomic-read' needs 'bytes = N'"),
        ("f = { effect = \"atomic-read\", object = 1, bytes = 3 }", "1, 2, 4 or 8 is expected, not 3"),
        ("f = { effect = \"pop\", queue = 1, for-us = 2, for-ms = 3 }", "there is a limit already"),
        ("\"a*b*c\" = \"pure\"", "the symbol of a function is expected, or a pattern with one '*'"),
        ("f = \"pure\"\n\n\ng = \"no\"", "lib.toml:6: one of the effects"),
        ("f = \"pure\"\nf = \"pure\"", "lib.toml:4: duplicate key"),
    ];
    for (functions, expected) in cases {
        let said = refused(functions);
        assert!(said.starts_with("lib.toml:") && said.contains(expected), "{functions}: {said}");
    }
    let whole = [
        ("[functions]\nf = \"pure\"", "'library = \"NAME\"' is missing"),
        ("library = \"L\"", "'[functions]' is missing, or empty"),
        (
            "library = \"L\"\nfile = []",
            "lib.toml:2: 'file' means nothing here; expected is one of library, about, files,",
        ),
        ("library = \"L\"\nfiles = \"libl.so\"", "lib.toml:2: a list of file names"),
        ("library = ", "lib.toml:1: "),
    ];
    for (text, expected) in whole {
        let said = read(text).expect_err("it has a mistake");
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn whatever_a_file_has_there_is_an_answer() {
    let valid = "library = \"L\"\n[functions]\nf = { effect = \"acquire\", lock = 1, try = \"g\" }\n";
    for end in 0..valid.len() {
        let _ = read(&valid[..end]);
        let mut changed = valid.as_bytes().to_vec();
        for byte in [b'"', b'{', b'*', b'\n', b'9'] {
            changed[end] = byte;
            let _ = std::str::from_utf8(&changed).map(read);
        }
    }
}

#[test]
fn the_models_that_are_built_in_can_be_read_and_their_functions_are_found() {
    let words = Models::default().table();
    let table = Table::new(&words).expect("a table");
    assert!(table.len() > 400);
    let find = |name: &str, file: &str| table.find(name.as_bytes(), Some(file.as_bytes()));
    let glib = "libglib-2.0.so.0";
    let lock = find("g_mutex_lock", glib).expect("it is known");
    assert_eq!((lock.effect, lock.object, table.text(lock.attempt)), (effect::ACQUIRE, 1, &b"g_mutex_trylock"[..]));
    assert_eq!(lock.attempt_success, success::NONZERO);
    let wait = find("g_cond_wait_until", glib).expect("it is known");
    assert_eq!((wait.limit, wait.unit), (3, limit::UNTIL_MONOTONIC_MICROSECONDS));
    assert_eq!(table.text(wait.release), b"g_mutex_unlock");
    // In another library it is another function.
    assert_eq!(find("g_mutex_lock", "libother.so"), None);
    // Patterns, and what they do not mean.
    assert_eq!(find("g_hash_table_insert", glib).map(|entry| entry.effect), Some(effect::ARGUMENTS));
    assert_eq!(find("sqlite3_step", "libsqlite3.so.0").map(|entry| entry.effect), Some(effect::ARGUMENTS));
    assert_eq!(find("sqlite3_config", "libsqlite3.so.0"), None);
    assert_eq!(find("g_nothing_of_the_kind", glib), None);
    let inner = find("_ZN4absl7debian312Notification6NotifyEv", "libabsl_synchronization.so.20220623");
    assert_eq!(inner.map(|entry| entry.effect), Some(effect::SEND));
}

#[test]
fn what_the_user_says_comes_before_what_is_built_in() {
    let model =
        read("library = \"G\"\nfiles = [\"libglib-2.0.so*\"]\n[functions]\ng_mutex_lock = \"pure\"").expect("right");
    let models = Models::with([model]);
    let words = models.table();
    let found = Table::new(&words).expect("a table").find(b"g_mutex_lock", Some(b"libglib-2.0.so.0"));
    assert_eq!(found.map(|entry| entry.effect), Some(effect::PURE));
    assert_eq!(models.find("g_mutex_lock", "libglib-2.0.so.0").map(|(model, _)| &*model.library), Some("G"));
    assert_eq!(models.find("g_mutex_unlock", "libglib-2.0.so.0").map(|(model, _)| &*model.library), Some("GLib"));
}

#[test]
fn words_that_are_no_table_are_none_or_lead_nowhere() {
    assert!(Table::new(&[]).is_none());
    assert!(Table::new(&[u64::MAX, 1, 1, 1]).is_none());
    assert!(Table::new(&[1, 0, 0, 0]).is_none());
    let mut words = Models::default().table();
    for at in 4..words.len() {
        let before = std::mem::replace(&mut words[at], u64::MAX / 3);
        let table = Table::new(&words).expect("the counts are as they were");
        for name in ["g_mutex_lock", "zError", "sqlite3_x"] {
            let _ = table.find(name.as_bytes(), Some(b"libglib-2.0.so.0"));
        }
        words[at] = before;
        if at > 200 {
            break;
        }
    }
}
