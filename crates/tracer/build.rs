//! Compiles the BPF programs and generates their Rust types.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, process::Command};

use flate2::Compression;
use flate2::write::GzEncoder;
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
        "gate_test",
        "own_cpus_test",
        "family_test",
        "recursion_test",
    ] {
        let object = out.join(format!("{name}.bpf.o"));
        let built = SkeletonBuilder::new()
            .source(format!("src/bpf/{name}.bpf.c"))
            .obj(&object)
            // Arithmetic and jumps of 32 bits, and atomics that return what they found
            // (Linux 5.12).
            .clang_args(["-mcpu=v3", "-Wall", "-Werror", "-Wno-unused-function"])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            eprintln!("error: src/bpf/{name}.bpf.c does not build: {error:#}");
            std::process::exit(1);
        }
        if let Err(error) = pack(&object) {
            eprintln!("error: {}: {error}", object.display());
            std::process::exit(1);
        }
    }
}

/// Writes OBJECT.gz, which `src/packed.rs` reads.
fn pack(object: &Path) -> io::Result<()> {
    let mut name = object.as_os_str().to_owned();
    name.push(".gz");
    let mut packed = GzEncoder::new(File::create(name)?, Compression::best());
    packed.write_all(&fs::read(object)?)?;
    packed.finish()?;
    Ok(())
}
