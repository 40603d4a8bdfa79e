//! Checks that each promise of docs/security.md names an existing test.

use std::fs;
use std::path::Path;

#[test]
fn each_names_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("`: `"));
    let mut promises = 0;
    for row in rows {
        let test = row.trim_end_matches(" |").rsplit("| ").next().unwrap();
        let (file, name) = test.split_once(": ").unwrap();
        let (file, name) = (file.trim_matches('`'), name.trim_matches('`'));
        let code = fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("{file}: {row}"));
        assert!(
            code.contains(&format!("fn {name}(")),
            "{name} is not in {file}: {row}"
        );
        promises += 1;
    }
    let named = page.lines().filter(|line| line.contains(".rs`")).count();
    // The introduction names this file, and the first table names its first promise's file once.
    assert_eq!(promises, named - 1, "a row that is read as none");
    assert!(promises > 15);
}
