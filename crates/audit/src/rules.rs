//! All rules of the audit.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::rule::AuditRule;

/// JSON text of the rules in the folder `rules`, by name.
const RULES: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

/// JSON text of the rules in the folder `joint`, by name.
const JOINT: &str = include_str!(concat!(env!("OUT_DIR"), "/joint.json"));

/// A rule file with a wrong format.
#[derive(Debug, Error)]
#[error("the rules: {0}")]
pub struct RuleError(#[from] serde_json::Error);

/// Returns all rules about one machine, sorted by name.
///
/// # Errors
/// If a rule has a wrong format.
pub fn all() -> Result<Vec<AuditRule>, RuleError> {
    read(RULES)
}

/// Returns all rules about a guest and its host, sorted by name.
///
/// # Errors
/// As for [`all`].
pub fn joint() -> Result<Vec<AuditRule>, RuleError> {
    read(JOINT)
}

fn read(gathered: &str) -> Result<Vec<AuditRule>, RuleError> {
    let rules: BTreeMap<String, AuditRule> = serde_json::from_str(gathered)?;
    let named = rules.into_iter().map(|(id, rule)| AuditRule { id, ..rule });
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_a_rule() {
        for (folder, rules) in [("rules", all()), ("joint", joint())] {
            is_gathered(folder, rules.unwrap());
        }
    }

    fn is_gathered(folder: &str, rules: Vec<AuditRule>) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = fs::read_dir(folder).unwrap().flatten();
        let files = files.map(|it| it.file_name().into_string().unwrap());
        let mut files: Vec<String> = files.collect();
        files.sort();
        let rules = rules.into_iter();
        let mut names: Vec<String> = rules.map(|it| format!("{}.toml", it.id)).collect();
        names.sort();
        assert_eq!(files, names);
    }

    #[test]
    fn the_document_has_every_rule() {
        let document = include_str!("../../../docs/audit.md");
        for rule in all().unwrap() {
            let explains = rule.explains.iter().map(|it| {
                let shares: Vec<&str> = it.shares.iter().map(|share| share.name()).collect();
                format!("{} of `{}`", shares.join(" "), it.who)
            });
            let explains = explains.collect::<Vec<_>>().join("; ");
            let remedy = &rule.remedy;
            let changed = match remedy.write.is_some() || remedy.run.is_some() {
                true if remedy.gives_up_protection => "now, by hand",
                true => "now",
                false => "next start",
            };
            let row = format!(
                "| `{}` | {} | {} | {changed} |",
                rule.id,
                rule.title,
                if explains.is_empty() { "-" } else { &explains }
            );
            assert!(document.lines().any(|line| line == row), "{row}");
        }
    }
}
