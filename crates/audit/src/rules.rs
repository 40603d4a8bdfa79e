//! All rules there are.

use thiserror::Error;

use crate::rule::Rule;

/// A file in `rules` each, with its name.
const FILES: [(&str, &str); 23] = [
    ("clocksource", include_str!("../rules/clocksource.toml")),
    ("compaction", include_str!("../rules/compaction.toml")),
    (
        "default-irq-affinity",
        include_str!("../rules/default-irq-affinity.toml"),
    ),
    ("governor", include_str!("../rules/governor.toml")),
    ("irq-affinity", include_str!("../rules/irq-affinity.toml")),
    ("isolated-cpus", include_str!("../rules/isolated-cpus.toml")),
    ("ksm", include_str!("../rules/ksm.toml")),
    ("mce-polling", include_str!("../rules/mce-polling.toml")),
    ("nmi-watchdog", include_str!("../rules/nmi-watchdog.toml")),
    ("nohz-full", include_str!("../rules/nohz-full.toml")),
    (
        "numa-balancing",
        include_str!("../rules/numa-balancing.toml"),
    ),
    ("nx-huge-pages", include_str!("../rules/nx-huge-pages.toml")),
    ("rps", include_str!("../rules/rps.toml")),
    ("rt-throttling", include_str!("../rules/rt-throttling.toml")),
    ("skew-tick", include_str!("../rules/skew-tick.toml")),
    ("soft-watchdog", include_str!("../rules/soft-watchdog.toml")),
    (
        "steal-accounting",
        include_str!("../rules/steal-accounting.toml"),
    ),
    ("thp", include_str!("../rules/thp.toml")),
    (
        "timer-migration",
        include_str!("../rules/timer-migration.toml"),
    ),
    ("tracers", include_str!("../rules/tracers.toml")),
    ("vmstat", include_str!("../rules/vmstat.toml")),
    ("workqueues", include_str!("../rules/workqueues.toml")),
    ("writeback", include_str!("../rules/writeback.toml")),
];

/// A rule file that says nothing that can be meant.
#[derive(Debug, Error)]
#[error("the rule {id}: {error}")]
pub struct RuleError {
    id: &'static str,
    #[source]
    error: toml::de::Error,
}

/// Every rule, by the order of their names.
///
/// # Errors
/// If one cannot be read: its file is wrong.
pub fn all() -> Result<Vec<Rule>, RuleError> {
    let read = FILES.iter().map(|(id, text)| {
        let rule = toml::from_str(text);
        let rule: Rule = rule.map_err(|error| RuleError { id, error })?;
        Ok(Rule {
            id: (*id).to_owned(),
            ..rule
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules");
        let files = fs::read_dir(folder).unwrap().flatten();
        let mut files: Vec<String> = files
            .map(|it| it.file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed: Vec<String> = FILES.iter().map(|(id, _)| format!("{id}.toml")).collect();
        assert_eq!(files, listed);
        assert_eq!(all().unwrap().len(), FILES.len());
    }
}
