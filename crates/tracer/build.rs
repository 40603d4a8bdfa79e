//! Compiles the BPF programs and generates their Rust types.

use std::path::PathBuf;
use std::{env, process::Command};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    if Command::new("clang").arg("--version").output().is_err() {
        eprintln!(
            "error: clang is missing, and it compiles the BPF programs: install the package `clang`"
        );
        std::process::exit(1);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    for name in [
        "noise",
        "exits",
        "gate",
        "own_cpus",
        "stop",
        "family",
        "vm_files",
        "handlers_test",
        "exits_test",
        "exits_glue_test",
        "gate_test",
        "own_cpus_test",
        "family_test",
        "misses_test",
    ] {
        let built = SkeletonBuilder::new()
            .source(format!("src/bpf/{name}.bpf.c"))
            .obj(out.join(format!("{name}.bpf.o")))
            // If the object were included as a list of numbers, rustc would need more time for it
            // than for the rest of the crate.
            .reference_obj(true)
            // `v3` has 32-bit arithmetic and jumps, and atomics that return the old value (Linux
            // 5.12).
            .clang_args(["-mcpu=v3", "-Wall", "-Werror", "-Wno-unused-function"])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            eprintln!("error: src/bpf/{name}.bpf.c does not build: {error:#}");
            std::process::exit(1);
        }
    }
}
