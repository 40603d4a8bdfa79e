//! Rules for the names of public types: each name exists once in the workspace, and is a noun.

use std::collections::BTreeMap;
use std::fs;

use syn::visit::{self, Visit};
use syn::{Ident, Item, Visibility};

use super::rules::Offence;
use super::texts;

/// Names that each crate may use.
const SHARED: [&str; 2] = ["Error", "Result"];
/// Participles without the ending "ed". Types in this workspace once had these names.
const PARTICIPLES: [&str; 14] = [
    "Told", "Taken", "Felt", "Said", "Known", "Seen", "Lost", "Held", "Kept", "Made", "Given",
    "Written", "Found", "Begun",
];
/// Nouns that end in "ed".
const NOUNS: [&str; 5] = ["Speed", "Feed", "Seed", "Need", "Bed"];

/// An offence, and the file with the type.
#[derive(Debug)]
pub struct Named {
    pub file: String,
    pub what: Offence,
}

/// Returns all offences in the names of public types.
pub fn offences(root: &str) -> Vec<Named> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in texts::files(root) {
        if file.starts_with("crates/") && file.ends_with(".rs") {
            let content = fs::read_to_string(format!("{root}/{file}")).unwrap();
            for name in public_types(&content) {
                types.entry(name).or_default().push(file.clone());
            }
        }
    }
    let mut offences = Vec::new();
    for (name, files) in types {
        let is_shared = files.len() > 1 && !SHARED.contains(&name.as_str());
        for file in files {
            if is_participle(&name) {
                let what = Offence::Participle(name.clone());
                offences.push(Named {
                    file: file.clone(),
                    what,
                });
            }
            if is_shared {
                let what = Offence::SharedName(name.clone());
                offences.push(Named { file, what });
            }
        }
    }
    offences
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(|letter| letter.is_lowercase());
    is_one_word && (PARTICIPLES.contains(&name) || name.ends_with("ed") && !NOUNS.contains(&name))
}

fn public_types(content: &str) -> Vec<String> {
    let mut reader = Types(Vec::new());
    reader.visit_file(&syn::parse_file(content).unwrap());
    reader.0
}

struct Types(Vec<String>);

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast Item) {
        let mut take = |visibility: &Visibility, name: &Ident| {
            if matches!(visibility, Visibility::Public(_)) {
                self.0.push(name.to_string());
            }
        };
        match item {
            Item::Enum(it) => take(&it.vis, &it.ident),
            Item::Struct(it) => take(&it.vis, &it.ident),
            Item::Trait(it) => take(&it.vis, &it.ident),
            Item::Type(it) => take(&it.vis, &it.ident),
            Item::Union(it) => take(&it.vis, &it.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

#[test]
fn a_participle_is_no_noun() {
    assert!(is_participle("Told") && is_participle("Judged"));
    assert!(!is_participle("Feed") && !is_participle("FlaggedRun") && !is_participle("Gap"));
    let types = public_types("pub struct A; struct B; pub(crate) enum C {} pub trait D {}");
    assert_eq!(types, ["A", "D"]);
}
