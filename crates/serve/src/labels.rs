//! Labels of VMs in the metrics, and of the vCPUs of one VM.

use vmnoise_events::Name;

/// Letters of a name that are kept before the suffix that makes it unique; longer names are cut.
const LETTERS: usize = 64;

/// Chooses the label of a new VM or vCPU: its name, followed by its process or thread if the label
/// is taken. The label stays until it ends, so its series continue when another one of that name
/// appears.
pub(crate) fn choose(name: &Name, pid: u32, is_taken: impl Fn(&Name) -> bool) -> Name {
    let mut label = name.clone();
    let short: String = name.as_str().chars().take(LETTERS).collect();
    let mut others = 0_u32;
    while is_taken(&label) {
        label = match others {
            0 => format!("{short}:{pid}").into(),
            others => format!("{short}:{pid}:{others}").into(),
        };
        others += 1;
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(vms: &[(&str, u32)]) -> Vec<Name> {
        let mut labels = Vec::<Name>::new();
        for (name, pid) in vms {
            labels.push(choose(&(*name).into(), *pid, |label| {
                labels.contains(label)
            }));
        }
        labels
    }

    #[test]
    fn two_vms_of_one_name_are_told_apart() {
        // The third VM has the name that is the label of the second by then.
        let labels = labels(&[("web", 7), ("web", 9), ("web:9", 9), ("db", 12)]);
        let labels: Vec<&str> = labels.iter().map(Name::as_str).collect();
        assert_eq!(labels, ["web", "web:9", "web:9:9", "db"]);
        // A VM that has such a name from the start keeps it.
        let labels = self::labels(&[("web", 7), ("web:9", 1), ("web", 9)]);
        let labels: Vec<&str> = labels.iter().map(Name::as_str).collect();
        assert_eq!(labels, ["web", "web:9", "web:9:1"]);
    }

    #[test]
    fn so_are_two_whose_names_are_too_long_to_be_told_apart() {
        let long = "a".repeat(300);
        let labels = labels(&[(&long, 7), (&long, 8), (&long, 8)]);
        assert!(labels[0] != labels[1] && labels[1] != labels[2] && labels[0] != labels[2]);
        assert!(labels[1].as_str().ends_with("a:8"), "{labels:?}");
    }
}
