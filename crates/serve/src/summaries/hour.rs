//! Converts sums to rows of the table of hourly summaries.

use vmnoise_export::{CulpritHour, VmHour, WaitHour};

use super::sums::Sums;

/// Returns the row of a VM, including the rows of its culprits and waits. `vcpus` is the number of
/// its vCPUs at the end of the period.
pub(super) fn of_vm(vm: Option<String>, vcpus: usize, sums: &Sums) -> VmHour {
    let named = sums.culprits.iter().map(|(who, ns)| CulpritHour {
        kind: who.kind.name(),
        name: who.name.as_str().to_owned(),
        ns: *ns,
    });
    // Kind and name are the same as in the metrics.
    let others = CulpritHour {
        kind: "unknown",
        name: "other".to_owned(),
        ns: sums.others_ns(),
    };
    let waits = sums.waits.by_bound();
    VmHour {
        vm,
        vcpus: vcpus as u64,
        running_ns: sums.ran_ns,
        halted_ns: sums.halted_ns,
        asleep_ns: sums.asleep_ns,
        preempted_ns: sums.lost.preempted,
        throttled_ns: sums.lost.throttled,
        idle_ns: sums.lost.idle,
        unsure_ns: sums.lost.unsure,
        blocked_ns: sums.lost.blocked,
        unseen_ns: sums.lost.unseen,
        culprits: named
            .chain([others])
            .filter(|culprit| culprit.ns > 0)
            .collect(),
        waits: waits
            .map(|(up_to_ns, waits)| WaitHour { up_to_ns, waits })
            .collect(),
    }
}
