//! Compiles `snag-runtime` into a shared library that becomes part of this one.
//!
//! The runtime has no dependencies, so this is one call of rustc; a nested cargo would wait for the outer one's locks.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let sources = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../runtime/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("runtime.so");
    println!("cargo::rustc-env=SNAG_RUNTIME={}", out.display());
    let target = env::var("TARGET").expect("cargo sets it");
    if target != "x86_64-unknown-linux-gnu" {
        // Traces can be analysed everywhere, programs recorded only there.
        std::fs::write(&out, []).expect("the output folder can be written");
        return;
    }
    let status = Command::new(env::var("RUSTC").expect("cargo sets it"))
        .args(["--edition", "2024", "--crate-name", "snag_runtime", "--crate-type", "cdylib", "--target", &target])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1", "-C", "strip=symbols"])
        .args(["-C", "link-arg=-Wl,-soname,libclang_rt.tsan-x86_64.so", "-C", "link-arg=-Wl,-z,now"])
        .args(["--cap-lints", "allow", "-o"])
        .arg(&out)
        .arg(sources.join("lib.rs"))
        .env_remove("RUSTFLAGS")
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!("the runtime could not be compiled: {other:?}"),
    }
}
