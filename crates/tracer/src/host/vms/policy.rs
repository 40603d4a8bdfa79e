//! The scheduling policy of a thread, out of its line in /proc.

/// Names of policies by number (include/uapi/linux/sched.h), as chrt(1) prints them.
const POLICIES: [(u32, &str); 6] = [
    (0, "SCHED_OTHER"),
    (1, "SCHED_FIFO"),
    (2, "SCHED_RR"),
    (3, "SCHED_BATCH"),
    (5, "SCHED_IDLE"),
    (6, "SCHED_DEADLINE"),
];

/// Policy and real-time priority, or nice value, from `/proc/PID/task/TID/stat` (proc(5));
/// empty where that cannot be read.
pub(super) fn of(stat: &str) -> String {
    // The name may hold anything, but no later field holds a parenthesis.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    // The first of them is field 3 of proc(5).
    let field = |number: usize| {
        fields
            .get(number - 3)
            .and_then(|text| text.parse::<i64>().ok())
    };
    let (Some(nice), Some(priority), Some(policy)) = (field(19), field(40), field(41)) else {
        return String::new();
    };
    let name = POLICIES
        .iter()
        .find(|(number, _)| i64::from(*number) == policy)
        .map_or_else(
            || format!("policy {policy}"),
            |(_, name)| (*name).to_owned(),
        );
    match (priority, nice) {
        (0, 0) => name,
        (0, nice) => format!("{name} nice {nice}"),
        (priority, _) => format!("{name} {priority}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(nice: i32, priority: u32, policy: u32) -> String {
        let mut fields = vec!["0".to_owned(); 52];
        fields[0] = "71".into();
        fields[1] = "(CPU 0/KVM (x) )".into();
        fields[2] = "S".into();
        fields[18] = nice.to_string();
        fields[39] = priority.to_string();
        fields[40] = policy.to_string();
        fields.join(" ")
    }

    #[test]
    fn policies_are_named_as_chrt_does() {
        assert_eq!(of(&stat(0, 0, 0)), "SCHED_OTHER");
        assert_eq!(of(&stat(-5, 0, 0)), "SCHED_OTHER nice -5");
        assert_eq!(of(&stat(0, 50, 1)), "SCHED_FIFO 50");
        assert_eq!(of(&stat(0, 0, 99)), "policy 99");
        assert_eq!(of(""), "");
    }

    #[test]
    fn this_thread_has_a_policy() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(of(&stat).starts_with("SCHED_"), "{stat}");
    }
}
