//! Recordings of VMs that real products created, with their sources. A recording has the VMM's
//! command line, /proc/PID/cgroup and the files of the container runtime.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::super::Host;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/vms/products");
/// Process id of the VMM in each recording.
const PID: u32 = 71;

/// Returns the lines of each `[SECTION]`, by the name of the section.
fn sections(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let (mut sections, mut section) = (BTreeMap::new(), "");
    for line in text.lines() {
        match line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            Some(name) => section = name,
            None => sections.entry(section).or_insert_with(Vec::new).push(line),
        }
    }
    sections
}

fn host(sections: &BTreeMap<&str, Vec<&str>>) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let cmdline = sections["cmdline"].join("\0") + "\0";
    write("proc/71/comm", "qemu-system-x86\n");
    write("proc/71/cmdline", &cmdline);
    write("proc/71/cgroup", &(sections["cgroup"].join("\n") + "\n"));
    for (path, lines) in sections
        .iter()
        .filter(|(path, _)| path.ends_with("config.json"))
    {
        write(path, &lines.join("\n"));
    }
    let host = Host::under(root.path());
    (root, host)
}

#[test]
fn each_product_is_told_by_the_names_that_its_people_use() {
    let mut products = 0;
    for entry in fs::read_dir(FOLDER).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{} has no source", path.display());
        let sections = sections(&text);
        let (_root, host) = host(&sections);
        let (name, identity) = host.who_is_vm(PID).unwrap();
        let known = identity
            .known()
            .map(|(fact, word)| format!("{} {word}", fact.name()));
        let told: Vec<String> = [format!("name {name}")].into_iter().chain(known).collect();
        assert_eq!(told, sections["is"], "{}", Path::new(&path).display());
        products += 1;
    }
    assert_eq!(products, 11);
}

#[test]
fn what_a_vmm_may_write_itself_is_shown_as_text() {
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    sections.insert("cmdline", vec!["qemu-kvm", "-name", "guest=a\u{1b}[2J"]);
    sections.insert("cgroup", vec!["0::/system.slice/\u{202e}x.service"]);
    let (_root, host) = host(&sections);
    let (name, identity) = host.who_is_vm(PID).unwrap();
    assert_eq!(name.as_str(), "a␛[2J");
    let (_, unit) = identity.known().last().unwrap();
    assert_eq!(unit.as_str(), "\u{fffd}x.service");
}
