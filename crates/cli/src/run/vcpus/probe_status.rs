//! How exits are seen and named on this machine, in the words of `vmnoise doctor` and of each result's
//! last lines.

use vmnoise_events::ProbeStatus;
use vmnoise_tracer::host::{Host, KvmDebugfs};
use vmnoise_tracer::{ExitTracer, ReasonSource, VmSearch};

/// What `vmnoise exits` needs, in the words of `vmnoise doctor`.
const EXITS_OF_ALL: &str = "exits of every VM";

/// How exits are counted and named in a run.
pub fn of_exits(tracer: &ExitTracer) -> Vec<ProbeStatus> {
    let mut probe_statuses = vec![of_counting(tracer.kvm_run_only())];
    if !tracer.kvm_run_only() {
        let first = "kvm_exit, or work of the host that came before it";
        probe_statuses.push(ProbeStatus::best("begin of an exit", first));
    }
    probe_statuses.push(of_reasons(tracer.reasons()));
    probe_statuses.extend(tracer.probe_statuses());
    probe_statuses
}

/// Where the clocks of guests are read, without which no recording is joined to theirs, and
/// how well their changes are dated.
pub fn of_clocks(tracer: &ExitTracer, search: &VmSearch) -> ProbeStatus {
    let debugfs = (!search.walks()).then(|| Host::here().kvm_debugfs());
    clocks(debugfs, tracer.dates_clocks())
}

/// Where the walk over files does not read them, debugfs has to.
fn clocks(debugfs: Option<KvmDebugfs>, dated: bool) -> ProbeStatus {
    const PROBE: &str = "clocks of the guests";
    let unknown = |remedy| {
        let limit = "recordings do not tell how the clocks of guests follow from this host's: none \
                     can be joined to a guest's";
        ProbeStatus::limited(PROBE, "none", limit, remedy)
    };
    let place = match debugfs {
        None => "BPF iterator over files",
        Some(KvmDebugfs::Readable) => "KVM's debugfs",
        Some(KvmDebugfs::Missing) => return unknown("mount -t debugfs debugfs /sys/kernel/debug"),
        Some(KvmDebugfs::Forbidden) => {
            return unknown("run as root, to whom alone debugfs is open");
        }
    };
    match dated {
        true => ProbeStatus::best(PROBE, &format!("{place}, changes dated by tp_btf")),
        false => ProbeStatus::limited(
            PROBE,
            &format!("{place}, each second"),
            "which clock a guest had stays unknown for up to a second where it changes",
            "use a kernel that has the tracepoint kvm_write_tsc_offset",
        ),
    }
}

fn of_counting(kvm_run_only: bool) -> ProbeStatus {
    if kvm_run_only {
        ProbeStatus::limited(
            "VM exits",
            "KVM_RUN",
            "kvm_exit and kvm_entry never fire under kvm_pvm: an exit is the time between two \
             KVM_RUN; exits handled in the host kernel, hence light exits and kvm, stay unknown, and \
             guest holds their time",
            "use kvm_intel or kvm_amd",
        )
    } else {
        ProbeStatus::best("VM exits", "tp_btf, counted in the kernel")
    }
}

/// What the programs of `vmnoise exits` showed on trial.
pub fn of_exit_tracer(tracer: &ExitTracer, search: &VmSearch) -> Vec<ProbeStatus> {
    let counted = ProbeStatus {
        probe: EXITS_OF_ALL.into(),
        ..of_counting(tracer.kvm_run_only())
    };
    let reported = ProbeStatus::best("exits one by one", "BPF ring buffer");
    vec![
        counted,
        of_reasons(tracer.reasons()),
        reported,
        search.probe_status(),
        of_clocks(tracer, search),
    ]
}

/// `vmnoise exits` cannot run here.
pub fn no_exits(why: &str, remedy: &str) -> ProbeStatus {
    let limit = format!("{why}: `vmnoise exits` cannot run here");
    ProbeStatus::limited(EXITS_OF_ALL, "none", &limit, remedy)
}

/// Where the reasons of exits come from.
fn of_reasons(source: ReasonSource) -> ProbeStatus {
    const PROBE: &str = "exit reasons";
    match source {
        ReasonSource::Btf { module } => {
            let never_live = "VMX is decoded, and was never run live by who wrote it: please send \
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
            "why the VMM was entered is all that is known",
            "use kvm_intel or kvm_amd",
        ),
        ReasonSource::Unread => ProbeStatus::limited(
            PROBE,
            "none",
            "exits are counted and timed, and their reasons stay unknown",
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

    #[test]
    fn what_keeps_clocks_from_a_recording_is_reported_with_its_remedy() {
        assert!(clocks(Some(KvmDebugfs::Readable), true).best);
        assert!(clocks(None, true).best);
        for (debugfs, remedy) in [
            (None, "tracepoint"),
            (Some(KvmDebugfs::Readable), "tracepoint"),
            (Some(KvmDebugfs::Missing), "mount -t debugfs"),
            (Some(KvmDebugfs::Forbidden), "root"),
        ] {
            let probe_status = clocks(debugfs, false);
            assert!(
                !probe_status.best && probe_status.remedy.contains(remedy),
                "{probe_status:?}"
            );
        }
    }
}
