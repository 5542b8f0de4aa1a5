//! Small traces of every kind, made on the spot.

use crate::running::{Folder, snag};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Two racing threads, with locks, a condition, memory of the heap and a stack worth showing.
pub const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
struct inner { int a; union { int i; char c[4]; } u; };
struct pool { int n; struct inner jobs[3]; } pool;
int counter, ready;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, k = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t c = PTHREAD_COND_INITIALIZER;
__attribute__((noinline)) void deep(int d, int *p) { if (d) deep(d - 1, p); else { counter++; pool.jobs[1].u.i = *p; } }
void *one(void *x) {
    pthread_setname_np(pthread_self(), "first");
    deep(3, x);
    pthread_mutex_lock(&m); pthread_mutex_lock(&k);
    pool.n++; ready = 1; pthread_cond_signal(&c);
    pthread_mutex_unlock(&k); pthread_mutex_unlock(&m);
    return 0;
}
void *two(void *x) {
    deep(1, x);
    pthread_mutex_lock(&k); pool.n--; pthread_mutex_unlock(&k);
    pthread_mutex_lock(&m);
    while (!ready) pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    return 0;
}
int main(void) {
    pthread_t a, b; int *p = malloc(16); p[0] = 7;
    pthread_create(&a, 0, one, p); pthread_create(&b, 0, two, p);
    pthread_join(a, 0); pthread_join(b, 0);
    free(p);
    return counter > 9;
}
"#;

/// A trace and the findings that were reported about it.
pub struct Seed {
    pub name: String,
    pub bytes: Vec<u8>,
    pub findings: Vec<u8>,
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Compiles and records the program in a folder; nothing on a machine without a compiler.
pub fn recorded(folder: &Folder, options: &[&str], name: &str) -> Option<PathBuf> {
    recorded_from(folder, &folder.0, options, name)
}

/// The same with another working directory.
pub fn recorded_from(folder: &Folder, here: &Path, options: &[&str], name: &str) -> Option<PathBuf> {
    let there = Command::new("gcc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no gcc on this machine");
        return None;
    }
    let (source, program) = (folder.path("victim.c"), folder.path("victim"));
    if !program.exists() {
        std::fs::write(&source, PROGRAM).unwrap();
        let compiled = Command::new("gcc")
            .args(["-g", "-O1", "-fsanitize=thread"])
            .args([&source, Path::new("-o"), &program])
            .arg("-lpthread")
            .status();
        assert!(compiled.unwrap().success());
    }
    let recording = folder.path(name);
    let mut arguments = vec!["-q", "record"];
    arguments.extend(options);
    arguments.extend(["-o", recording.to_str().unwrap(), "--", program.to_str().unwrap()]);
    let ran = snag(here, &arguments);
    assert!(recording.exists(), "{}", ran.stderr);
    Some(recording)
}

/// Binary traces: recorded, incomplete, symbolic, foreign.
pub fn binary(folder: &Folder) -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |path: &Path| seeds.push(seed(folder, path));
    for (options, name) in [(&[][..], "victim.snag"), (&["--free-running"][..], "freely.snag")] {
        recorded(folder, options, name).iter().for_each(|path| add(path));
    }
    let mut convert = |from: &Path, to: &str| {
        let to = folder.path(to);
        snag(&folder.0, &["convert", from.to_str().unwrap(), to.to_str().unwrap()]).expect(0);
        add(&to);
    };
    convert(&repository("examples/rdit/account.stx"), "account.snag");
    convert(&repository("examples/bank.stx"), "bank.snag");
    convert(&repository("examples/shb/fig3.std"), "fig3.snag");
    convert(&repository("crates/formats/tests/every.stx"), "every.snag");
    convert(&symbolic(folder), "symbolic.snag");
    seeds
}

/// Text traces.
pub fn text(folder: &Folder) -> Vec<Seed> {
    let paths =
        ["examples/rdit/account.stx", "examples/bank.stx", "examples/shb/fig3.std", "crates/formats/tests/every.stx"];
    let mut seeds: Vec<Seed> = paths.iter().map(|path| seed(folder, &repository(path))).collect();
    seeds.push(seed(folder, &symbolic(folder)));
    seeds
}

/// A trace with expressions.
fn symbolic(folder: &Folder) -> PathBuf {
    let (program, out) = (repository("examples/recipe/figure1.rcp"), folder.path("symbolic.stx"));
    let arguments = ["-q", "trace", program.to_str().unwrap(), "--seed", "3", "-o", out.to_str().unwrap()];
    let ran = snag(&folder.0, &arguments);
    assert!(out.exists(), "{}", ran.stderr);
    out
}

fn seed(folder: &Folder, path: &Path) -> Seed {
    let out = folder.path("found.json");
    let path_text = path.to_str().unwrap();
    let ran = snag(&folder.0, &["check", "--format", "json", "-o", out.to_str().unwrap(), path_text]);
    assert!(matches!(ran.status, Some(0 | 1)), "{path_text}: {}", ran.stderr);
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    Seed { name, bytes: std::fs::read(path).unwrap(), findings: std::fs::read(out).unwrap() }
}
