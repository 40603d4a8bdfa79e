//! What VMs are called in the metrics.

use vmnoise_events::Name;

/// The label of a VM that has come: its name, and its process too where another VM has that label.
/// It keeps it for good, so that its series go on whoever comes after it.
pub(crate) fn choose(name: &Name, pid: u32, is_taken: impl Fn(&Name) -> bool) -> Name {
    let mut label = name.clone();
    while is_taken(&label) {
        label = format!("{label}:{pid}").into();
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_vms_of_one_name_are_told_apart() {
        let mut labels = Vec::<Name>::new();
        // The third calls itself as the second is called by then.
        for (name, pid) in [("web", 7), ("web", 9), ("web:9", 11), ("db", 12)] {
            labels.push(choose(&name.into(), pid, |label| labels.contains(label)));
        }
        let labels: Vec<&str> = labels.iter().map(Name::as_str).collect();
        assert_eq!(labels, ["web", "web:9", "web:9:11", "db"]);
    }
}
