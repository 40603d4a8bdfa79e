//! Converts the rule files to JSON, so that the program needs no TOML parser.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Map, Value};

fn main() {
    for folder in ["rules", "joint"] {
        gather(folder);
    }
}

/// Writes the rules of a folder into one JSON file with the name of the folder.
fn gather(from: &str) {
    println!("cargo::rerun-if-changed={from}");
    let mut rules = Map::new();
    let mut files: Vec<PathBuf> = fs::read_dir(from)
        .expect("the rules are beside this file")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).expect("it can be read");
        let rule: Value = match toml::from_str(&text) {
            Ok(rule) => rule,
            Err(error) => panic!("{}: {error}", file.display()),
        };
        let id = file.file_stem().expect("it has a name").to_string_lossy();
        rules.insert(id.into_owned(), rule);
    }
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    let gathered = Value::from(rules).to_string();
    fs::write(
        Path::new(&folder).join(from).with_extension("json"),
        gathered,
    )
    .expect("it can be written");
}
