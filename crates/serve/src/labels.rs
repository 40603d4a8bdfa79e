//! Labels of VMs in the metrics, and labels of the vCPUs of one VM.

use vmnoise_events::Name;

/// Largest number of letters of a name that are kept in front of a suffix. The suffix makes the
/// label unique.
const LETTERS: usize = 64;

/// Chooses the label of a new VM or vCPU. The label is its name. If another VM or vCPU already has
/// this label, the process id or thread id is appended. A label never changes, so the series
/// continue when another VM or vCPU with the same name appears.
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
        // The third VM's name equals the label that the second VM already has.
        let labels = labels(&[("web", 7), ("web", 9), ("web:9", 9), ("db", 12)]);
        let labels: Vec<&str> = labels.iter().map(Name::as_str).collect();
        assert_eq!(labels, ["web", "web:9", "web:9:9", "db"]);
        // A VM whose name has this form keeps its name as label.
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
