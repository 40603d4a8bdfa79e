//! Each header of the BPF programs includes what it uses, and may be included more than once. So
//! programs may include headers in any order.

use std::fs;
use std::process::Command;

use libbpf_rs::libbpf_sys::API_HEADERS;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf");
/// Headers that use names which the including file must define first.
const TEMPLATES: [&str; 4] = [
    "irq_nesting.bpf.h",
    "irq_vectors.bpf.h",
    "sched_switch.bpf.h",
    "steal_clock.bpf.h",
];

fn headers() -> impl Iterator<Item = String> {
    let files = fs::read_dir(FOLDER).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".h") && !TEMPLATES.contains(&name.as_str()))
}

#[test]
fn each_header_compiles_alone_and_twice() {
    let temp = tempfile::tempdir().unwrap();
    let libbpf = temp.path().join("bpf");
    fs::create_dir(&libbpf).unwrap();
    for (name, text) in API_HEADERS {
        fs::write(libbpf.join(name), text).unwrap();
    }
    let mut sources = Vec::new();
    for name in headers() {
        let source = temp.path().join(format!("{name}.c"));
        fs::write(&source, format!("#include \"{name}\"\n").repeat(2)).unwrap();
        sources.push(source);
    }
    assert!(sources.len() > 30, "{sources:?}");
    // The same arguments as in `build.rs`.
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-mcpu=v3", "-g", "-O2"]);
    clang.args(["-Wall", "-Werror", "-Wno-unused-function"]);
    clang.arg("-fsyntax-only");
    clang.args(["-I", FOLDER, "-I"]).arg(temp.path());
    let output = clang.args(sources).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
