//! Probe statuses of `vmnoise exits` and of the guests' clocks, for `vmnoise doctor` and the end of
//! each result.

use vmnoise_events::ProbeStatus;
use vmnoise_host::{Host, KvmDebugfs};
use vmnoise_tracer::{ExitTracer, VmSearch};

/// Name of the probe that `vmnoise exits` needs.
const EXITS_OF_ALL: &str = "exits of every VM";

/// Returns the status of the guests' clocks: how they are read, and how exactly their changes are
/// dated. Without these clocks, a recording cannot be joined with a guest's recording.
pub fn of_clocks(tracer: &ExitTracer, search: &VmSearch) -> ProbeStatus {
    let debugfs = (!search.walks()).then(|| Host::here().kvm_debugfs());
    clocks(debugfs, tracer.dates_clocks())
}

/// Returns the status of the guests' clocks. `debugfs` is `None` if a BPF iterator over files finds
/// the clocks.
fn clocks(debugfs: Option<KvmDebugfs>, dated: bool) -> ProbeStatus {
    const PROBE: &str = "clocks of the guests";
    let unknown = |remedy| {
        let limit = "recordings lack the offsets between this host's clock and the guests': they \
                     cannot be joined with recordings of guests";
        ProbeStatus::limited(PROBE, "none", limit, remedy)
    };
    let place = match debugfs {
        None => "BPF iterator over files",
        Some(KvmDebugfs::Readable) => "KVM's debugfs",
        Some(KvmDebugfs::Missing) => return unknown("mount -t debugfs debugfs /sys/kernel/debug"),
        Some(KvmDebugfs::Forbidden) => {
            return unknown("run as root: only root may read debugfs");
        }
    };
    match dated {
        true => ProbeStatus::best(PROBE, &format!("{place}, changes dated by tp_btf")),
        false => ProbeStatus::limited(
            PROBE,
            &format!("{place}, each second"),
            "if the clock of a guest changes, its clock is unknown for up to a second",
            "use a kernel that has the tracepoint kvm_write_tsc_offset",
        ),
    }
}

/// Returns the statuses of the BPF programs of `vmnoise exits` after they were loaded on trial.
pub fn of_exit_tracer(tracer: &ExitTracer, search: &VmSearch) -> Vec<ProbeStatus> {
    let counted = ProbeStatus {
        probe: EXITS_OF_ALL.into(),
        ..tracer.counting_status()
    };
    let reported = ProbeStatus::best("exits one by one", "BPF ring buffer");
    vec![
        counted,
        tracer.reasons_status(),
        reported,
        search.probe_status(),
        of_clocks(tracer, search),
    ]
}

/// Returns the status for a machine on which `vmnoise exits` cannot run.
pub fn no_exits(why: &str, remedy: &str) -> ProbeStatus {
    let limit = format!("{why}: `vmnoise exits` cannot run here");
    ProbeStatus::limited(EXITS_OF_ALL, "none", &limit, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

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
