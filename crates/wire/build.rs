//! Tells the build script of `snag-runtime` where the sources of this crate are.

use std::env;

fn main() {
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::metadata=root={folder}/src/lib.rs");
    println!("cargo::rerun-if-changed=build.rs");
}
