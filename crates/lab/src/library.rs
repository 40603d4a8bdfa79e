//! Scenarios that are part of the program.

/// Name and text of each scenario.
pub const ALL: [(&str, &str); 18] = [
    ("kvm-and-xen", include_str!("../scenarios/kvm-and-xen.toml")),
    (
        "kvm-and-xen-under-load",
        include_str!("../scenarios/kvm-and-xen-under-load.toml"),
    ),
    ("xen-load", include_str!("../scenarios/xen-load.toml")),
    (
        "xen-guest-types",
        include_str!("../scenarios/xen-guest-types.toml"),
    ),
    ("xen-periods", include_str!("../scenarios/xen-periods.toml")),
    (
        "xen-timer-slop",
        include_str!("../scenarios/xen-timer-slop.toml"),
    ),
    (
        "xen-priority-inversion",
        include_str!("../scenarios/xen-priority-inversion.toml"),
    ),
    ("xen-tsc", include_str!("../scenarios/xen-tsc.toml")),
    (
        "xen-schedulers",
        include_str!("../scenarios/xen-schedulers.toml"),
    ),
    ("xen-dom0", include_str!("../scenarios/xen-dom0.toml")),
    ("isolation", include_str!("../scenarios/isolation.toml")),
    ("exits", include_str!("../scenarios/exits.toml")),
    (
        "hardware-noise",
        include_str!("../scenarios/hardware-noise.toml"),
    ),
    ("long-exit", include_str!("../scenarios/long-exit.toml")),
    (
        "osnoise-tuned",
        include_str!("../scenarios/osnoise-tuned.toml"),
    ),
    (
        "osnoise-at-fifo1",
        include_str!("../scenarios/osnoise-at-fifo1.toml"),
    ),
    ("cyclictest", include_str!("../scenarios/cyclictest.toml")),
    ("net-rx-tail", include_str!("../scenarios/net-rx-tail.toml")),
];

/// Returns the text of the scenario with this name; `None` if there is none.
pub fn text(name: &str) -> Option<&'static str> {
    let mut all = ALL.iter();
    all.find_map(|(known, text)| (*known == name).then_some(*text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::scenario::{Cell, Scenario};

    #[test]
    fn each_is_a_scenario_whose_cells_have_names_of_their_own() {
        for (name, text) in ALL {
            let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let cells = scenario.cells();
            let names: BTreeSet<String> = cells.iter().map(Cell::name).collect();
            assert_eq!(names.len(), cells.len(), "{name}");
        }
    }

    #[test]
    fn each_file_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let files = fs::read_dir(folder).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let there: BTreeSet<String> = files
            .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        let known: BTreeSet<String> = ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(known, there);
    }
}
