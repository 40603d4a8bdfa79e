//! Probe statuses of the workloads, for `vmnoise doctor` and the end of each result.

use vmnoise_events::{OffsetProof, ProbeName, ProbeStatus};
use vmnoise_host::LapicTimerAdvance;
use vmnoise_workload::microvm::{Error, GuestClock, KvmOffer};

use crate::at_stop::AskedAtStop;

/// Longest reading of a native TSC, in ns. A native reading takes dozens of cycles; an exit to a
/// hypervisor and back takes a thousand or more.
const EMULATED_RDTSC_NS: u64 = 300;

/// Returns the statuses that a trial VM showed, for `vmnoise doctor`.
pub fn of_offer(offer: &KvmOffer) -> Vec<ProbeStatus> {
    let mut probe_statuses = vec![ProbeStatus::best("microVM", "/dev/kvm")];
    probe_statuses.extend(of_guest(offer.steal_clock, &offer.clock));
    probe_statuses.push(if offer.exit_stat {
        ProbeStatus::best("exit statistics of KVM", "per-vCPU statistics fd")
    } else {
        ProbeStatus::limited(
            "exit statistics of KVM",
            "none",
            "exit counts cannot be compared with KVM's own",
            "use Linux 5.14 or newer",
        )
    });
    probe_statuses
}

/// Returns the statuses of a prepared guest.
pub fn of_guest(steal_clock: bool, clock: &GuestClock) -> Vec<ProbeStatus> {
    let steal = if steal_clock {
        ProbeStatus::best(ProbeName::StealOfGuest.name(), "MSR_KVM_STEAL_TIME")
    } else {
        ProbeStatus::limited(
            ProbeName::StealOfGuest.name(),
            "none",
            "steal is unknown; time that no task explains is residual",
            "use a host kernel with CONFIG_SCHED_INFO",
        )
    };
    let offset = match clock.offset_proof {
        Some(OffsetProof::SetAndBracketed) => ProbeStatus::best(
            "clock of the guest",
            "TSC offset set to 0, verified by bracketing",
        ),
        Some(OffsetProof::Mapped) | None => ProbeStatus::limited(
            "clock of the guest",
            "TSC offset estimated by bracketing",
            "the error of the estimate is part of the clock bound",
            "use Linux 5.16 or newer, which can set the offset",
        ),
    };
    vec![steal, offset]
}

/// Returns the status of the evidence that is kept for a stop.
pub fn of_stop(asked: AskedAtStop) -> ProbeStatus {
    let used = match (asked.stack_from_ns, asked.tasks) {
        (Some(_), false) => "stacks, at each wake-up",
        (Some(_), true) => "stacks, at each wake-up, and all switches of all CPUs",
        (None, _) => "all switches of all CPUs",
    };
    ProbeStatus::limited(
        "kept for a stop",
        used,
        "its cost is part of the latencies, and not of the own cost",
        "run without -s and --dump-tasks",
    )
}

/// Returns the status of the steal clock that a polling thread reads after each gap.
pub fn of_gap_steal(readable: bool) -> ProbeStatus {
    if readable {
        return ProbeStatus::best(
            ProbeName::StealAtGaps.name(),
            "BPF_PROG_RUN by the polling thread",
        );
    }
    ProbeStatus::limited(
        ProbeName::StealAtGaps.name(),
        "none",
        "steal is unknown; if there is a hypervisor, the residual contains it",
        "use a guest kernel with a steal clock and BTF, and run as root",
    )
}

/// Returns the status of the run delay at each gap, which is read if BPF names no threads.
pub fn of_run_delay() -> ProbeStatus {
    ProbeStatus::limited(
        "waits at each gap",
        "/proc/self/task/TID/schedstat by the polling thread",
        "the share thread includes throttling, and names no threads",
        "run as root, so that BPF can name them",
    )
}

/// Returns the status of observed threads, on whose CPUs no thread polls.
pub fn of_observed() -> ProbeStatus {
    ProbeStatus::limited(
        "pauses of the thread",
        "as traced on its CPU",
        "no thread polls: time that a hypervisor or the hardware takes while the thread runs is \
         in no gap; the steal clock has the hypervisor's total",
        "measure the CPU with a polling thread (without --pid and --comm)",
    )
}

/// Returns the status of the interference counters that a polling thread reads with its clock.
pub fn of_interference(counted: bool) -> ProbeStatus {
    if counted {
        return ProbeStatus::best(
            "interference at each gap",
            "counters in shared memory, read with the clock",
        );
    }
    ProbeStatus::limited(
        "interference at each gap",
        "none",
        "HW, NMI, IRQ, Softirq and Thread count only recorded gaps: those below the threshold, \
         and lost ones, are missing",
        "use a kernel with BTF, and run as root",
    )
}

/// Returns the status of the TSC: read natively, or emulated by a hypervisor. Each gap and each
/// latency begins and ends with a reading.
pub fn of_tsc(rdtsc_cycles: u64, tsc_hz: u64) -> ProbeStatus {
    const PROBE: &str = "TSC";
    let rdtsc_ns = rdtsc_cycles.saturating_mul(1_000_000_000) / tsc_hz.max(1);
    if rdtsc_ns <= EMULATED_RDTSC_NS {
        let native = format!("native, {rdtsc_cycles} cycles a reading");
        return ProbeStatus::best(PROBE, &native);
    }
    let limit = format!(
        "each reading is an exit that takes {rdtsc_ns} ns: measured latencies and gaps are too \
         long by this time"
    );
    ProbeStatus::limited(
        PROBE,
        &format!("emulated, {rdtsc_cycles} cycles a reading"),
        &limit,
        "let this guest read the TSC: on Xen by tsc_mode=\"native\" in xl.cfg; elsewhere by a host \
         with a constant TSC, and the same TSC rate in the guest",
    )
}

/// Returns the status of the guests' timers: how this host's KVM fires them.
pub fn of_guest_timers(advance: LapicTimerAdvance) -> ProbeStatus {
    const PROBE: &str = "timers of guests";
    const REMEDY: &str = "load kvm with lapic_timer_advance=1; before Linux 6.10 with \
                          lapic_timer_advance_ns=-1";
    match advance {
        LapicTimerAdvance::Adaptive => {
            ProbeStatus::best(PROBE, "fired ahead of time (lapic_timer_advance), adaptive")
        }
        LapicTimerAdvance::Fixed(ns) => ProbeStatus::limited(
            PROBE,
            &format!("fired {ns} ns ahead of time (lapic_timer_advance_ns)"),
            "the same time for every guest: if KVM enters a guest more slowly, its timers are \
             late; if faster, its vCPU spins until they are due",
            REMEDY,
        ),
        LapicTimerAdvance::Off => ProbeStatus::limited(
            PROBE,
            "fired when due (no lapic_timer_advance)",
            "each timer latency of a guest includes the time to enter the guest",
            REMEDY,
        ),
    }
}

/// Returns the status of a run without BPF, which cannot name culprits.
pub fn no_witness(rung_in_use: &str, remedy: &str) -> ProbeStatus {
    ProbeStatus::limited(
        ProbeName::Activities.name(),
        rung_in_use,
        "no culprit has a name; time that no clock of the workload explains is unexplained",
        remedy,
    )
}

/// Returns the status for a machine on which the microVM cannot run.
pub fn no_microvm(error: &Error) -> ProbeStatus {
    ProbeStatus::limited(
        "microVM",
        "none",
        "`vmnoise microvm` cannot run here",
        &error.to_string(),
    )
}

/// Returns the status of the latency limit for idle states while periodic tasks run. `held_us` is
/// the limit in microseconds. If there is no limit, `why` is the reason.
pub fn of_idle(held_us: Option<i32>, why: &str) -> ProbeStatus {
    const PROBE: &str = "idle states";
    match held_us {
        Some(us) => ProbeStatus::best(PROBE, &format!("/dev/cpu_dma_latency held at {us} us")),
        None => {
            let limit =
                format!("not held: the latencies include the time to leave idle states ({why})");
            ProbeStatus::limited(PROBE, "none", &limit, "run as root, with --dma-latency 0")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tsc_that_takes_an_exit_is_emulated() {
        let native = of_tsc(40, 2_000_000_000);
        assert!(
            native.best && native.in_use.contains("40 cycles"),
            "{native:?}"
        );
        let emulated = of_tsc(4000, 2_000_000_000);
        assert!(!emulated.best, "{emulated:?}");
        assert!(
            emulated.in_use.starts_with("emulated, 4000 "),
            "{emulated:?}"
        );
        assert!(emulated.limit.contains("2000 ns"), "{emulated:?}");
        // A TSC that did not advance during its calibration proves nothing.
        assert!(!of_tsc(20, 0).best);
    }

    #[test]
    fn guests_whose_timers_fire_when_due_have_a_remedy() {
        assert!(of_guest_timers(LapicTimerAdvance::Adaptive).best);
        for advance in [LapicTimerAdvance::Off, LapicTimerAdvance::Fixed(5000)] {
            let probe_status = of_guest_timers(advance);
            assert!(
                !probe_status.best && probe_status.remedy.contains("lapic_timer_advance"),
                "{probe_status:?}"
            );
        }
    }
}
