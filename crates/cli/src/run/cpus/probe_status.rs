//! Probe statuses of the workloads, for `vmnoise doctor` and the end of each result.

use vmnoise_events::{OffsetProof, ProbeName, ProbeStatus};
use vmnoise_host::LapicTimerAdvance;
use vmnoise_workload::microvm::{Error, GuestClock, KvmOffer};

use crate::run::at_stop::AskedAtStop;

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
            "exit counts cannot be checked against KVM's own",
            "Linux 5.14 or newer has them",
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
            "steal is unknown; what no task explains is residual",
            "a host kernel with CONFIG_SCHED_INFO offers it",
        )
    };
    let offset = match clock.offset_proof {
        Some(OffsetProof::SetAndBracketed) => {
            ProbeStatus::best("clock of the guest", "TSC offset 0, set and bracketed")
        }
        Some(OffsetProof::Mapped) | None => ProbeStatus::limited(
            "clock of the guest",
            "TSC offset estimated by bracketing",
            "the bound of the estimate is part of the clock bound",
            "Linux 5.16 or newer lets the offset be set",
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
        "what that costs is in the latencies, and not in the own cost",
        "leave out -s and --dump-tasks",
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
        "steal is unknown: where there is a hypervisor, it is in the residual",
        "a guest kernel with a steal clock and BTF, and the right to load BPF",
    )
}

/// Returns the status of the run delay at each gap, which is read if BPF names no threads.
pub fn of_run_delay() -> ProbeStatus {
    ProbeStatus::limited(
        "waits at each gap",
        "/proc/self/task/TID/schedstat by the polling thread",
        "share thread is how long other threads had the CPU, throttling included, and not who they were",
        "run as root: BPF names them",
    )
}

/// Returns the status of observed threads, on whose CPUs no thread polls.
pub fn of_observed() -> ProbeStatus {
    ProbeStatus::limited(
        "pauses of the thread",
        "as witnessed on its CPU",
        "nobody polls: what a hypervisor or the hardware takes while the thread runs is not \
         observed; for a hypervisor the steal clock gives the sum, which belongs to no gap",
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
        "HW, NMI, IRQ, Softirq and Thread count what gaps show: not what lies below the threshold, \
         and not what was lost",
        "a kernel with BTF, and the right to load BPF",
    )
}

/// Returns whether the TSC is read natively or by a hypervisor. Each gap and each latency begins
/// and ends with a reading.
pub fn of_tsc(rdtsc_cycles: u64, tsc_hz: u64) -> ProbeStatus {
    const PROBE: &str = "TSC";
    let rdtsc_ns = rdtsc_cycles.saturating_mul(1_000_000_000) / tsc_hz.max(1);
    if rdtsc_ns <= EMULATED_RDTSC_NS {
        let native = format!("native, {rdtsc_cycles} cycles a reading");
        return ProbeStatus::best(PROBE, &native);
    }
    let limit = format!(
        "each reading is an exit that takes {rdtsc_ns} ns: latencies and gaps are measured that \
         much too long"
    );
    ProbeStatus::limited(
        PROBE,
        &format!("emulated, {rdtsc_cycles} cycles a reading"),
        &limit,
        "have the hypervisor let this guest read it: tsc_mode=\"native\" of Xen's xl.cfg; elsewhere \
         a host that keeps its own TSC constant, and a guest at the same rate",
    )
}

/// Returns how this host's KVM fires the timers of its guests.
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
            "as long for every guest: where the way into one takes longer its timers are late, and \
             where it takes less its vCPU spins until they are due",
            REMEDY,
        ),
        LapicTimerAdvance::Off => ProbeStatus::limited(
            PROBE,
            "fired when due (no lapic_timer_advance)",
            "the way into the guest is part of each of its timer latencies",
            REMEDY,
        ),
    }
}

/// Name of the probe that names culprits.
pub const ACTIVITIES: &str = "host activities";

/// Returns the status of a run without BPF, which cannot name culprits.
pub fn no_witness(rung_in_use: &str, remedy: &str) -> ProbeStatus {
    ProbeStatus::limited(
        ACTIVITIES,
        rung_in_use,
        "nobody can be named: what no clock of the workload tells is unexplained",
        remedy,
    )
}

/// Returns the status if the microVM cannot run.
pub fn no_microvm(error: &Error) -> ProbeStatus {
    ProbeStatus::limited(
        "microVM",
        "none",
        "`vmnoise microvm` cannot run here",
        &error.to_string(),
    )
}

/// Returns the latency limit for idle states while periodic tasks ran, in microseconds, or `why`
/// there was none.
pub fn of_idle(held_us: Option<i32>, why: &str) -> ProbeStatus {
    const PROBE: &str = "idle states";
    match held_us {
        Some(us) => ProbeStatus::best(PROBE, &format!("/dev/cpu_dma_latency held at {us} us")),
        None => {
            let limit = format!("not held: the way out of idle is part of the latencies ({why})");
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
        // A TSC that did not move during its calibration is no evidence.
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
