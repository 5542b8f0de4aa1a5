//! Small files that unpack to very much, or claim to.

use crate::blocks::{Block, EXTRA, INDEX, NAMES, names_of_threads, packed_with_zstd, put, put_together, settle};
use crate::running::{Folder, Ran, snag};

/// Refused for the memory that it would take, with what to do about it.
fn too_much(ran: Ran, name: &str) {
    let Ran { stderr, .. } = ran.expect(2);
    assert!(stderr.contains(name) && stderr.contains("of memory; --memory SIZE raises this limit"), "{stderr}");
}

fn check(folder: &Folder, name: &str, contents: &[u8]) -> Ran {
    let path = folder.file(name, contents);
    snag(&folder.0, &["check", path.to_str().unwrap()])
}

#[test]
fn comments_that_unpack_to_a_gigabyte_are_refused() {
    let folder = Folder::new("comments");
    let comments = packed_with_zstd(&b"# x\n".repeat(1 << 24));
    for (name, first) in [("header.stx.zst", "%snag 1\n"), ("later.stx.zst", "%snag 1\nT|w(x)|a\n")] {
        let bomb = [packed_with_zstd(first.as_bytes()), comments.repeat(20)].concat();
        too_much(check(&folder, name, &bomb), name);
    }
}

/// Threads that are only named: each of them costs everybody something.
#[test]
fn ten_million_threads_are_refused() {
    let folder = Folder::new("threads");
    const PER: usize = 1 << 20;
    let block = |first: usize| Block::new(NAMES, names_of_threads((first..first + PER).map(|k| format!("{k:x}")), PER));
    let mut blocks: Vec<Block> = (0..10).map(|k| block(k * PER)).collect();
    settle(&mut blocks);
    too_much(check(&folder, "threads.snag", &put_together(&blocks, true)), "threads.snag: byte ");
    // The same as text, of which each line names another one.
    let lines: String = (0..2_000_000).map(|k| format!("T|fork({k})|\n")).collect();
    let text = packed_with_zstd(format!("%snag 1\n{lines}").as_bytes());
    too_much(check(&folder, "forks.stx.zst", &text), "forks.stx.zst: line ");
}

#[test]
fn the_limit_can_be_raised_and_lowered() {
    let folder = Folder::new("limit");
    let lines: String = (0..50_000).map(|k| format!("T|w(variable{k})|a\n")).collect();
    let path = folder.file("many.std.zst", packed_with_zstd(lines.as_bytes()));
    let path = path.to_str().unwrap();
    too_much(snag(&folder.0, &["--memory", "1M", "check", path]), "many.std.zst");
    snag(&folder.0, &["check", "--memory", "100M", path]).expect(0);
    snag(&folder.0, &["check", path]).expect(0);
    for command in ["stats", "convert"] {
        let out = folder.path("out.stx");
        let mut arguments = vec![command, "--memory", "1M", path];
        arguments.extend((command == "convert").then_some(out.to_str().unwrap()));
        too_much(snag(&folder.0, &arguments), "many.std.zst");
    }
}

/// Nobody needs what is in extra blocks as long as nothing was found.
#[test]
fn extra_blocks_are_not_unpacked_for_nothing() {
    let folder = Folder::new("extra");
    let mut blocks = vec![Block::new(EXTRA, vec![0; 64 << 20])];
    settle(&mut blocks);
    let one = put_together(&blocks, true);
    // All between the header of the file and the end, many times.
    let end = one.len() - 48;
    let bomb = [&one[..16], &one[16..end].repeat(3000), &one[end..]].concat();
    let Ran { stderr, .. } = check(&folder, "extra.snag", &bomb).expect(2);
    assert!(stderr.contains("there is no event"), "{stderr}");
}

/// What a recording has beside its events counts, too.
#[test]
fn what_is_beside_the_events_has_a_limit() {
    let folder = Folder::new("beside");
    let (trace, snag_file) = (folder.file("race.std", "a|w(x)|1\nb|w(x)|2\n"), folder.path("race.snag"));
    snag(&folder.0, &["convert", trace.to_str().unwrap(), snag_file.to_str().unwrap()]).expect(0);
    let mut blocks = crate::blocks::take_apart(&std::fs::read(&snag_file).unwrap());
    // Ten million empty strings in each.
    let mut names = vec![2];
    put(&mut names, 10_000_000);
    names.extend(vec![0; 10_000_002]);
    blocks.extend((0..3).map(|_| Block::new(EXTRA, names.clone())));
    settle(&mut blocks);
    let file = put_together(&blocks, true);
    too_much(check(&folder, "beside.snag", &file), "what the recording has beside its events");
}

/// A set of two million objects that every object leads to.
#[test]
fn sets_that_missing_methods_reach_have_a_limit() {
    let folder = Folder::new("sets");
    let members: Vec<String> = (0..60_000).map(|k| format!("v{k}")).collect();
    let mut text = format!("%snag 1\nT|reach(o,{{{}}})|\n", members.join(","));
    for k in 0..3000 {
        text += &format!("T|reach(p{k},{{o}})|\nT|method-begin(m,p{k})|\nT|method-end(m)|\n");
    }
    too_much(check(&folder, "sets.stx.zst", &packed_with_zstd(text.as_bytes())), "sets.stx.zst: line ");
}

#[test]
fn an_endless_line_is_refused() {
    let folder = Folder::new("line");
    let piece = packed_with_zstd(&vec![b'x'; 64 << 20]);
    for (name, first) in [("line.stx.zst", "%snag 1\n"), ("line.std.zst", "T|w(x)|")] {
        let bomb = [packed_with_zstd(first.as_bytes()), piece.repeat(16)].concat();
        let Ran { stderr, memory, .. } = check(&folder, name, &bomb).expect(2);
        assert!(stderr.contains("line is longer than") && memory < 100 << 20, "{stderr}");
    }
}

/// Asking for one of very many semaphores does not look at all of them.
#[test]
fn a_hundred_thousand_declarations_are_no_burden() {
    let folder = Folder::new("declarations");
    let mut text = "%snag 1\n".to_owned();
    for k in 0..100_000 {
        text += &format!("%semaphore s{k} 4000000000\n");
    }
    for k in 0..100_000 {
        text += &format!("%barrier b{k} 4000000000\n");
    }
    text += "T|sem-wait(s7)|a\nT|w(x)|b\nU|barrier-enter(b9)|c\nU|w(x)|d\n";
    check(&folder, "declared.stx", text.as_bytes()).expect(1);
}

#[test]
fn an_index_of_more_blocks_than_the_file_has_is_refused() {
    let folder = Folder::new("index");
    let (trace, snag_file) = (folder.file("race.std", "a|w(x)|1\nb|w(x)|2\n"), folder.path("race.snag"));
    snag(&folder.0, &["convert", trace.to_str().unwrap(), snag_file.to_str().unwrap()]).expect(0);
    let mut blocks = crate::blocks::take_apart(&std::fs::read(&snag_file).unwrap());
    let index = blocks.iter_mut().find(|block| block.kind == INDEX).unwrap();
    index.payload.clear();
    put(&mut index.payload, 30 << 20);
    index.payload.extend([1, EXTRA].repeat(30 << 20));
    let ran = check(&folder, "index.snag", &put_together(&blocks, true)).expect(2);
    assert!(ran.stderr.contains("the index lists 31457280 blocks") && ran.memory < 300 << 20, "{}", ran.stderr);
}
