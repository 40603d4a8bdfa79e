//! Selects the programs that have tests: the libraries, this program, and the `tests/` of each
//! crate. Documentation, examples and the labs' programs have no tests. The whole workspace is
//! selected, because a single package would have other features and would be built again.

/// Cargo arguments that select all programs with tests.
pub const ALL: [&str; 6] = ["--workspace", "--lib", "--bin", "xtask", "--test", "*"];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Collects the Rust files below a folder.
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }

    /// Returns the path and the text of each Rust file, by package.
    fn packages() -> Vec<Vec<(PathBuf, String)>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let crates = fs::read_dir(root.join("crates")).unwrap();
        let crates = crates.map(|entry| entry.unwrap().path());
        let read = |package: PathBuf| {
            let mut found = Vec::new();
            files(&package, &mut found);
            let text = |path: PathBuf| (path.clone(), fs::read_to_string(path).unwrap());
            found.into_iter().map(text).collect()
        };
        crates.chain([root.join("xtask")]).map(read).collect()
    }

    #[test]
    fn no_test_is_where_none_is_looked_for() {
        let mut read = 0;
        for (path, text) in packages().into_iter().flatten() {
            let path = path.to_str().unwrap();
            let is_program = path.contains("crates/") && path.ends_with("/src/main.rs");
            let folders = ["/src/bin/", "/examples/", "/benches/"];
            if is_program || folders.iter().any(|folder| path.contains(folder)) {
                assert!(!text.contains("#[test]\n"), "{path}");
            }
            let is_example = |line: &str| line.starts_with("//") && line.ends_with("```");
            let example = text.lines().find(|line| is_example(line.trim()));
            assert_eq!(example, None, "{path}: no tier runs it");
            read += 1;
        }
        assert!(read > 500, "only {read} files were read");
    }

    /// Checks that `tests/main.rs` includes every test file. Cargo builds only this file.
    #[test]
    fn every_file_of_tests_is_in_a_program() {
        let mut parts = 0;
        for package in packages() {
            let is_test = |path: &Path| {
                let path = path.to_str().unwrap();
                path.contains("/tests/") && !path.contains("/src/")
            };
            let tests: Vec<_> = package.iter().filter(|(path, _)| is_test(path)).collect();
            for (path, _) in &tests {
                let name = path.file_stem().unwrap();
                let name = match name.to_str().unwrap() {
                    "main" => continue,
                    "mod" => path.parent().unwrap().file_name().unwrap(),
                    _ => name,
                };
                let module = format!("mod {};\n", name.display());
                let there = tests.iter().any(|(_, text)| text.contains(&module));
                assert!(there, "{} is in no program", path.display());
                parts += 1;
            }
        }
        assert!(parts > 100, "only {parts} files were found");
    }
}
