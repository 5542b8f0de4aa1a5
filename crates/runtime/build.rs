//! Compiles the runtime, whose root is `src/lib.rs`, into the shared library that `embed/lib.rs` holds.
//!
//! The runtime must be position-independent, optimised and without unwinding whatever the profile of this build is, and a
//! nested cargo would wait for the outer one's locks. So this script calls rustc: once for `snag-wire`, the runtime's
//! only dependency, and once for the runtime.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let wire = PathBuf::from(variable("DEP_SNAG_WIRE_ROOT"));
    println!("cargo::rerun-if-changed={}", folder.join("src").display());
    println!("cargo::rerun-if-changed={}", wire.parent().unwrap_or(&wire).display());
    let out = PathBuf::from(variable("OUT_DIR"));
    let library = out.join("runtime.so");
    println!("cargo::rustc-env=SNAG_RUNTIME={}", library.display());
    let target = variable("TARGET");
    if target != "x86_64-unknown-linux-gnu" {
        // Traces can be analysed everywhere, programs recorded only there.
        std::fs::write(&library, []).expect("the output folder can be written");
        return;
    }
    let wire_library = out.join("libsnag_wire.rlib");
    run(rustc("snag_wire", "rlib", &target).arg("-o").arg(&wire_library).arg(&wire));
    let mut wire_path = std::ffi::OsString::from("snag_wire=");
    wire_path.push(&wire_library);
    run(rustc("snag_runtime", "cdylib", &target)
        .args(["-C", "strip=symbols"])
        .args(["-C", "link-arg=-Wl,-soname,libclang_rt.tsan-x86_64.so", "-C", "link-arg=-Wl,-z,now"])
        .arg("--extern")
        .arg(wire_path)
        .arg("-o")
        .arg(&library)
        .arg(folder.join(Path::new("src/lib.rs"))));
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn rustc(name: &str, kind: &str, target: &str) -> Command {
    let mut command = Command::new(variable("RUSTC"));
    command
        .args(["--edition", "2024", "--crate-name", name, "--crate-type", kind, "--target", target])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1", "--cap-lints", "allow"])
        .env_remove("RUSTFLAGS");
    command
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        other => panic!("the runtime could not be compiled: {command:?}: {other:?}"),
    }
}
