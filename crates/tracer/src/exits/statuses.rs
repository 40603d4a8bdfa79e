//! Statuses of the sources and names of exits on this machine. `vmnoise doctor` and the last lines
//! of each result show them.

use vmnoise_events::{ProbeName, ProbeStatus};

use super::{ExitTracer, ReasonSource};

impl ExitTracer {
    /// Returns the status of counting exits, of their reasons, and of each group that observes the
    /// host's work on vCPUs.
    pub fn exit_statuses(&self) -> Vec<ProbeStatus> {
        let mut probe_statuses = vec![self.counting_status()];
        if !self.kvm_run_only() {
            let first = "kvm_exit, or work of the host before it";
            probe_statuses.push(ProbeStatus::best("begin of an exit", first));
        }
        probe_statuses.push(self.reasons_status());
        probe_statuses.extend(self.probe_statuses());
        probe_statuses
    }

    /// Returns the status of counting exits.
    pub fn counting_status(&self) -> ProbeStatus {
        of_counting(self.kvm_run_only())
    }

    /// Returns the status of exit reasons, which names their source.
    pub fn reasons_status(&self) -> ProbeStatus {
        of_reasons(self.reasons)
    }
}

fn of_counting(kvm_run_only: bool) -> ProbeStatus {
    if kvm_run_only {
        ProbeStatus::limited(
            ProbeName::KvmExit.name(),
            "KVM_RUN",
            "kvm_exit and kvm_entry never fire under kvm_pvm: an exit is the time between two \
             KVM_RUN; exits handled in the host kernel (light exits, kvm) are unknown, and their time \
             counts as guest",
            "use kvm_intel or kvm_amd",
        )
    } else {
        ProbeStatus::best(ProbeName::KvmExit.name(), "tp_btf, counted in the kernel")
    }
}

fn of_reasons(source: ReasonSource) -> ProbeStatus {
    const PROBE: &str = "exit reasons";
    match source {
        ReasonSource::Btf { module } => {
            let never_live = "VMX is decoded, but was never tested on Intel hardware: please send \
                              a recording (docs/how-to-test-on-intel.md)";
            let limit = if module == "kvm_intel" {
                never_live
            } else {
                ""
            };
            ProbeStatus {
                limit: limit.into(),
                ..ProbeStatus::best(PROBE, &format!("BTF of {module}"))
            }
        }
        ReasonSource::KvmRun => ProbeStatus::limited(
            PROBE,
            "exit_reason of KVM_RUN",
            "only the reasons for exits to the VMM are known",
            "use kvm_intel or kvm_amd",
        ),
        ReasonSource::Unread => ProbeStatus::limited(
            PROBE,
            "none",
            "exits are counted and timed, but their reasons are unknown",
            "use a kernel with the BTF of its modules (CONFIG_DEBUG_INFO_BTF_MODULES)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_run_live_is_reported_on_intel_alone() {
        for (module, reported) in [("kvm_intel", true), ("kvm_amd", false)] {
            let probe_status = of_reasons(ReasonSource::Btf { module });
            assert_eq!(probe_status.in_use, format!("BTF of {module}"));
            assert!(probe_status.best);
            assert_eq!(
                probe_status.limit.contains("how-to-test-on-intel.md"),
                reported
            );
        }
        assert!(!of_reasons(ReasonSource::Unread).best);
    }
}
