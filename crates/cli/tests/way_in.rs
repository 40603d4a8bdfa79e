//! Checks that everything exists to which the documents refer a newcomer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The stops of "Follow one gap" in docs/design.md.
#[test]
fn each_stop_of_a_gap_is_a_function() {
    let page = read(&root().join("docs/design.md"));
    let (_, way) = page.split_once("## Follow one gap").unwrap();
    let (way, _) = way.split_once("\n## ").unwrap();
    let mut stops = 0;
    let mut files = BTreeSet::new();
    for (line, _) in way.match_indices("`: `") {
        let file = way[..line].rsplit('`').next().unwrap();
        let function = way[line + 4..].split('`').next().unwrap();
        let code = read(&root().join(file));
        let rust = code.contains(&format!("fn {function}("));
        let c = !file.ends_with(".rs") && code.contains(&format!(" {function}("));
        assert!(rust || c, "{file} has no function `{function}`");
        files.insert(file);
        stops += 1;
    }
    // The page says how many there are.
    assert!(way.contains("30 files"));
    assert_eq!(stops, 30);
    assert_eq!(files.len(), 30, "{files:?}");
}

/// Each link in a document leads to an existing target.
#[test]
fn each_link_between_documents_leads_somewhere() {
    let folders = ["", "docs", "docs/how-to", "docs/examples", "docs/internals"];
    let mut links = 0;
    for folder in folders.map(|folder| root().join(folder)) {
        for page in fs::read_dir(&folder).unwrap() {
            let page = page.unwrap().path();
            if page.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = read(&page);
            for target in text.split("](").skip(1) {
                let target = target.split([')', '#']).next().unwrap();
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let there = folder.join(target).exists();
                assert!(there, "{}: {target}", page.display());
                links += 1;
            }
        }
    }
    assert!(links > 20, "{links}");
}
