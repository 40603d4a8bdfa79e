//! The rungs of the microVM's own ladders, in the words of `vmnoise doctor` and of
//! each result's last lines.

use vmnoise_events::{OffsetProof, Rung};
use vmnoise_tracer::host::{Host, KvmDebugfs, LapicTimerAdvance};
use vmnoise_tracer::{ExitTracer, ReasonSource};
use vmnoise_workload::microvm::{Error, GuestClock, KvmOffer};

/// What `vmnoise exits` needs, in the words of `vmnoise doctor`.
const EXITS_OF_ALL: &str = "exits of every VM";
/// One reading of the TSC beyond this is a hypervisor's answer: it is dozens of cycles of a
/// processor, and an exit and the way back are a thousand or more.
const EMULATED_RDTSC_NS: u64 = 300;

/// What a trial VM showed, for `vmnoise doctor`.
pub fn of_offer(offer: &KvmOffer) -> Vec<Rung> {
    let mut rungs = vec![rung("microVM", "/dev/kvm", true, "", "")];
    rungs.extend(of_guest(offer.steal_clock, &offer.clock));
    rungs.push(if offer.exit_stat {
        rung(
            "exit statistics of KVM",
            "per-vCPU statistics fd",
            true,
            "",
            "",
        )
    } else {
        rung(
            "exit statistics of KVM",
            "none",
            false,
            "exit counts cannot be checked against KVM's own",
            "Linux 5.14 or newer has them",
        )
    });
    rungs
}

/// How exits are counted and named in a run.
pub fn of_exits(tracer: &ExitTracer) -> Vec<Rung> {
    let mut rungs = vec![of_counting(tracer.kvm_run_only())];
    if !tracer.kvm_run_only() {
        let first = "kvm_exit, or work of the host that came before it";
        rungs.push(rung("begin of an exit", first, true, "", ""));
    }
    rungs.push(of_reasons(tracer.reasons()));
    rungs.extend(tracer.rungs());
    rungs
}

/// Where the clocks of guests are read, without which no recording is joined to theirs, and
/// how well their changes are dated.
pub fn of_clocks(tracer: &ExitTracer) -> Rung {
    clocks(Host::here().kvm_debugfs(), tracer.dates_clocks())
}

fn clocks(debugfs: KvmDebugfs, dated: bool) -> Rung {
    const PROBE: &str = "clocks of the guests";
    let unknown = |remedy| {
        let limit = "recordings do not tell how the clocks of guests follow from this host's: none \
                     can be joined to a guest's";
        rung(PROBE, "none", false, limit, remedy)
    };
    match debugfs {
        KvmDebugfs::Readable if dated => rung(
            PROBE,
            "KVM's debugfs, changes dated by tp_btf",
            true,
            "",
            "",
        ),
        KvmDebugfs::Readable => rung(
            PROBE,
            "KVM's debugfs, each second",
            false,
            "which clock a guest had stays unknown for up to a second where it changes",
            "use a kernel that has the tracepoint kvm_write_tsc_offset",
        ),
        KvmDebugfs::Missing => unknown("mount -t debugfs debugfs /sys/kernel/debug"),
        KvmDebugfs::Forbidden => unknown("run as root, to whom alone debugfs is open"),
    }
}

fn of_counting(kvm_run_only: bool) -> Rung {
    if kvm_run_only {
        rung(
            "VM exits",
            "KVM_RUN",
            false,
            "kvm_exit and kvm_entry never fire under kvm_pvm: an exit is the time between two \
             KVM_RUN; exits handled in the host kernel, hence light exits and kvm, stay unknown, and \
             guest holds their time",
            "use kvm_intel or kvm_amd",
        )
    } else {
        rung("VM exits", "tp_btf, counted in the kernel", true, "", "")
    }
}

/// What the programs of `vmnoise exits` showed on trial.
pub fn of_exit_tracer(tracer: &ExitTracer) -> Vec<Rung> {
    let counted = Rung {
        probe: EXITS_OF_ALL.into(),
        ..of_counting(tracer.kvm_run_only())
    };
    let told = rung("exits one by one", "BPF ring buffer", true, "", "");
    vec![
        counted,
        of_reasons(tracer.reasons()),
        told,
        of_clocks(tracer),
    ]
}

/// `vmnoise exits` cannot run here.
pub fn no_exits(why: &str, remedy: &str) -> Rung {
    let limit = format!("{why}: `vmnoise exits` cannot run here");
    rung(EXITS_OF_ALL, "none", false, &limit, remedy)
}

/// Where the reasons of exits come from.
fn of_reasons(source: ReasonSource) -> Rung {
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
            rung(PROBE, &format!("BTF of {module}"), true, limit, "")
        }
        ReasonSource::KvmRun => rung(
            PROBE,
            "exit_reason of KVM_RUN",
            false,
            "why the VMM was entered is all that is known",
            "use kvm_intel or kvm_amd",
        ),
        ReasonSource::Unread => rung(
            PROBE,
            "none",
            false,
            "exits are counted and timed, and their reasons stay unknown",
            "use a kernel with the BTF of its modules (CONFIG_DEBUG_INFO_BTF_MODULES)",
        ),
    }
}

/// What holds for a prepared guest.
pub fn of_guest(steal_clock: bool, clock: &GuestClock) -> Vec<Rung> {
    let steal = if steal_clock {
        rung(
            "steal clock of the guest",
            "MSR_KVM_STEAL_TIME",
            true,
            "",
            "",
        )
    } else {
        rung(
            "steal clock of the guest",
            "none",
            false,
            "steal is unknown; what no task explains is residual",
            "a host kernel with CONFIG_SCHED_INFO offers it",
        )
    };
    let offset = match clock.offset_proof {
        Some(OffsetProof::SetAndBracketed) => rung(
            "clock of the guest",
            "TSC offset 0, set and bracketed",
            true,
            "",
            "",
        ),
        Some(OffsetProof::Mapped) | None => rung(
            "clock of the guest",
            "TSC offset estimated by bracketing",
            false,
            "the bound of the estimate is part of the clock bound",
            "Linux 5.16 or newer lets the offset be set",
        ),
    };
    vec![steal, offset]
}

/// The steal clock as a polling thread reads it after each gap.
pub fn of_gap_steal(readable: bool) -> Rung {
    if readable {
        return rung(
            "steal at each gap",
            "BPF_PROG_RUN by the polling thread",
            true,
            "",
            "",
        );
    }
    rung(
        "steal at each gap",
        "none",
        false,
        "steal is unknown: where there is a hypervisor, it is in hv_or_hw",
        "a guest kernel with a steal clock and BTF, and the right to load BPF",
    )
}

/// Who observes a thread feels nothing himself.
pub fn of_observed() -> Rung {
    rung(
        "pauses of the thread",
        "as witnessed on its CPU",
        false,
        "nobody polls: what a hypervisor or the hardware takes while the thread runs is not \
         felt; of a hypervisor the steal clock tells the sum, as part of no gap",
        "measure the CPU with a polling thread (without --pid and --comm)",
    )
}

/// The interference counters that a polling thread reads with its clock.
pub fn of_interference(counted: bool) -> Rung {
    if counted {
        return rung(
            "interference at each gap",
            "counters in shared memory, read with the clock",
            true,
            "",
            "",
        );
    }
    rung(
        "interference at each gap",
        "none",
        false,
        "HW, NMI, IRQ, Softirq and Thread count what gaps show: not what lies below the threshold, \
         and not what was lost",
        "a kernel with BTF, and the right to load BPF",
    )
}

/// Who answers when the TSC is read, which is what each latency and each gap begins and ends
/// with.
pub fn of_tsc(rdtsc_cycles: u64, tsc_hz: u64) -> Rung {
    const PROBE: &str = "TSC";
    let rdtsc_ns = rdtsc_cycles.saturating_mul(1_000_000_000) / tsc_hz.max(1);
    if rdtsc_ns <= EMULATED_RDTSC_NS {
        let native = format!("native, {rdtsc_cycles} cycles a reading");
        return rung(PROBE, &native, true, "", "");
    }
    let limit = format!(
        "each reading is an exit that takes {rdtsc_ns} ns: latencies and gaps are felt that much \
         too long"
    );
    rung(
        PROBE,
        &format!("emulated, {rdtsc_cycles} cycles a reading"),
        false,
        &limit,
        "have the hypervisor let this guest read it: tsc_mode=\"native\" of Xen's xl.cfg; elsewhere \
         a host that keeps its own TSC constant, and a guest at the same rate",
    )
}

/// How this host's KVM fires the timers of its guests.
pub fn of_guest_timers(advance: LapicTimerAdvance) -> Rung {
    const PROBE: &str = "timers of guests";
    const REMEDY: &str = "load kvm with lapic_timer_advance=1; before Linux 6.10 with \
                          lapic_timer_advance_ns=-1";
    match advance {
        LapicTimerAdvance::Adaptive => rung(
            PROBE,
            "fired ahead of time (lapic_timer_advance), adaptive",
            true,
            "",
            "",
        ),
        LapicTimerAdvance::Fixed(ns) => rung(
            PROBE,
            &format!("fired {ns} ns ahead of time (lapic_timer_advance_ns)"),
            false,
            "as long for every guest: where the way into one takes longer its timers are late, and \
             where it takes less its vCPU spins until they are due",
            REMEDY,
        ),
        LapicTimerAdvance::Off => rung(
            PROBE,
            "fired when due (no lapic_timer_advance)",
            false,
            "the way into the guest is part of each of its timer latencies",
            REMEDY,
        ),
    }
}

/// No witness: nobody can be named.
pub fn no_witness(rung_in_use: &str, remedy: &str) -> Rung {
    rung(
        "host activities",
        rung_in_use,
        false,
        "nobody can be named: what the steal clock does not tell is hv_or_hw",
        remedy,
    )
}

/// The microVM cannot run at all.
pub fn no_microvm(error: &Error) -> Rung {
    rung(
        "microVM",
        "none",
        false,
        "`vmnoise microvm` cannot run here",
        &error.to_string(),
    )
}

/// What idle CPUs were held to while periodic tasks ran, in microseconds; or why to nothing.
pub fn of_idle(held_us: Option<i32>, why: &str) -> Rung {
    const PROBE: &str = "idle states";
    match held_us {
        Some(us) => rung(
            PROBE,
            &format!("/dev/cpu_dma_latency held at {us} us"),
            true,
            "",
            "",
        ),
        None => {
            let limit = format!("not held: the way out of idle is part of the latencies ({why})");
            rung(
                PROBE,
                "none",
                false,
                &limit,
                "run as root, with --dma-latency 0",
            )
        }
    }
}

fn rung(probe: &str, rung: &str, best: bool, limit: &str, remedy: &str) -> Rung {
    Rung {
        probe: probe.into(),
        rung: rung.into(),
        best,
        limit: limit.into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_run_live_is_told_on_intel_alone() {
        for (module, told) in [("kvm_intel", true), ("kvm_amd", false)] {
            let rung = of_reasons(ReasonSource::Btf { module });
            assert_eq!(rung.rung, format!("BTF of {module}"));
            assert!(rung.best);
            assert_eq!(rung.limit.contains("how-to-test-on-intel.md"), told);
        }
        assert!(!of_reasons(ReasonSource::Unread).best);
    }

    #[test]
    fn a_tsc_that_takes_an_exit_is_emulated() {
        let native = of_tsc(40, 2_000_000_000);
        assert!(
            native.best && native.rung.contains("40 cycles"),
            "{native:?}"
        );
        let emulated = of_tsc(4000, 2_000_000_000);
        assert!(!emulated.best, "{emulated:?}");
        assert!(emulated.rung.starts_with("emulated, 4000 "), "{emulated:?}");
        assert!(emulated.limit.contains("2000 ns"), "{emulated:?}");
        // A TSC that did not move while it was calibrated says nothing.
        assert!(!of_tsc(20, 0).best);
    }

    #[test]
    fn guests_whose_timers_fire_when_due_have_a_remedy() {
        assert!(of_guest_timers(LapicTimerAdvance::Adaptive).best);
        for advance in [LapicTimerAdvance::Off, LapicTimerAdvance::Fixed(5000)] {
            let rung = of_guest_timers(advance);
            assert!(
                !rung.best && rung.remedy.contains("lapic_timer_advance"),
                "{rung:?}"
            );
        }
    }

    #[test]
    fn what_keeps_clocks_from_a_recording_is_told_with_its_remedy() {
        assert!(clocks(KvmDebugfs::Readable, true).best);
        for (debugfs, remedy) in [
            (KvmDebugfs::Readable, "tracepoint"),
            (KvmDebugfs::Missing, "mount -t debugfs"),
            (KvmDebugfs::Forbidden, "root"),
        ] {
            let rung = clocks(debugfs, false);
            assert!(!rung.best && rung.remedy.contains(remedy), "{rung:?}");
        }
    }
}
