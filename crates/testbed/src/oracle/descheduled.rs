//! Compares the steal time that `vmnoise timerlat` reports in a guest with the events of the host's
//! scheduler. Meanwhile, a task of the host preempts the guest's vCPU.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::causes::{Delay, Span, TASK, delay, list};
use super::xen::Clock;
use crate::bed::inside::outputs;
use crate::bed::{CommandOutput, DebianKernel, Lab};
use crate::lab_program;

/// Time for which the task preempts the vCPU, and time for which the task sleeps, both in
/// microseconds.
const TURN_US: [u64; 2] = [3_000, 24_000];
/// Options of the trace. The clock of the trace is the host's TSC, from which the guest's TSC can
/// be computed. The trace also has the waits that the scheduler itself counts (`sched_stat_wait`)
/// by the clock of its run queue. The scheduler uses the same readings of that clock for the run
/// delay that KVM reports to the guest.
const EVENTS: &str = "/proc/sys/kernel/sched_schedstats=1 trace_clock=x86-tsc buffer_size_kb=16384 \
                      events/sched/sched_switch/enable=1 events/sched/sched_waking/enable=1 \
                      events/sched/sched_stat_wait/enable=1";
/// Text that identifies the vCPU's thread, whose name QEMU sets (`debug-threads`).
const VCPU: &str = "comm=CPU 0/KVM ";

/// Results of the comparison in a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeschedulingTrace {
    /// `uname -r` of the host's and of the guest's kernel.
    pub kernel_version: String,
    /// Time for which the task preempts the vCPU without a pause, nanoseconds.
    pub burst_ns: u64,
    /// Clock error after the conversion of a host's time to the guest's clock, nanoseconds.
    pub bound_ns: u64,
    /// Allowed difference between a wait according to the events around it and the wait that the
    /// scheduler counts, nanoseconds. It is the largest difference of any wait in this run.
    ///
    /// The scheduler reads the run queue's clock before it decides, and fires its events
    /// afterwards. At the end of a wait, the difference is the rest of `__schedule`. If a wake-up
    /// preempts the vCPU, the scheduler does not read the clock again for the switch
    /// (`rq_clock_skip_update`). Then the difference also contains the rest of the waking interrupt
    /// and its softirqs. Under virtual time these are instructions of 1 ns each.
    pub decision_ns: u64,
    /// The guest's wake-ups with the longest latency. The longest is first.
    pub delays: Vec<LateWakeup>,
    /// Largest steal time of a listed wake-up in the run without the task, nanoseconds.
    pub quiet_ns: u64,
}

/// A wake-up of the guest whose latency is among the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateWakeup {
    /// Time that the vCPU's thread waited for a CPU during the latency, and time that `vmnoise`
    /// reports as steal.
    pub delay: Delay,
    /// Whether the first wait certainly or possibly began before the wake-up was due. Then only the
    /// part of this wait after that time counts, as measured by the events. All other waits count
    /// by the clock that the guest's steal time comes from.
    pub is_cut: bool,
}

/// Boots a lab with a guest under virtual time, and starts the task on the host. The task runs
/// longer than the guest's measurement, because the end of the task would take CPU time too.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn descheduled() -> Result<DeschedulingTrace> {
    let [burst_us, every_us] = TURN_US;
    let clock = "lab-disturb clock";
    let report = Lab::kernel(DebianKernel::Cloud)
        .virtual_time(0)
        .guest(&[
            &format!("{TASK} -d 1"),
            clock,
            &format!("{TASK} -d 2"),
            clock,
        ])
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?)
        .program(&lab_program("lab-tracefs")?)
        .run(&[
            "& lab-guest boot -name l2,debug-threads=on",
            "lab-guest told 1",
            "lab-guest offset",
            &format!("& lab-disturb turns 0 {burst_us} {every_us} /tmp/turns"),
            &format!("lab-tracefs while {EVENTS} -- lab-guest told 4"),
            "lab-tracefs show",
            "lab-guest results",
        ])?;
    let [_, offset, _, trace, results] = &report.outputs[..] else {
        bail!("{} outputs", report.outputs.len());
    };
    let results = outputs(results.text()?.as_bytes())?;
    let [quiet, before, beside, after] = &results[..] else {
        bail!("{} results of the guest", results.len());
    };
    let clock = Clock::of([before.text()?, after.text()?])?;
    let offset_tsc: i64 = offset.text()?.trim().parse()?;
    let guest_ns = |tsc: u64| clock.mono_ns(tsc.wrapping_add_signed(offset_tsc));
    let waits = waits(trace.text()?)?;
    let mapped = waits.iter().map(|wait| {
        Some(Mapped {
            span: guest_ns(wait.begin_tsc).zip(guest_ns(wait.end_tsc))?,
            booked_ns: wait.booked_ns,
        })
    });
    let waits: Option<Vec<Mapped>> = mapped.collect();
    let waits = waits.context("a wait before the guest began")?;
    let decisions = waits
        .iter()
        .map(|wait| wait.length_ns().abs_diff(wait.booked_ns));
    let decision_ns = decisions.max().context("no wait")?;
    let delays = stolen(beside, &waits, clock.bound_ns + decision_ns)?;
    let quiet = stolen(quiet, &[], 0)?;
    Ok(DeschedulingTrace {
        kernel_version: report.kernel_version.clone(),
        burst_ns: burst_us * 1_000,
        bound_ns: clock.bound_ns,
        decision_ns,
        delays,
        quiet_ns: quiet.iter().map(|it| it.delay.named_ns).max().unwrap_or(0),
    })
}

/// A wait of the vCPU's thread for a CPU, by the host's TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    begin_tsc: u64,
    end_tsc: u64,
    /// Length of the wait as the scheduler counts it, nanoseconds.
    booked_ns: u64,
}

/// A wait of the vCPU's thread, converted to the guest's clock.
#[derive(Debug, Clone, Copy)]
struct Mapped {
    span: Span,
    booked_ns: u64,
}

impl Mapped {
    fn length_ns(&self) -> u64 {
        self.span.1 - self.span.0
    }

    /// Returns whether the wait began before `from_ns` and ended after `from_ns`. Both times may be
    /// wrong by `bound_ns`.
    fn is_cut(&self, from_ns: u64, bound_ns: u64) -> bool {
        let (begin_ns, end_ns) = self.span;
        begin_ns < from_ns.saturating_add(bound_ns) && from_ns < end_ns.saturating_add(bound_ns)
    }

    /// Returns the part of the wait within these times, in nanoseconds. If the whole wait lies
    /// within them, returns the length that the scheduler counts.
    fn within(&self, (from_ns, to_ns): Span) -> u64 {
        match self.span {
            (begin_ns, end_ns) if from_ns <= begin_ns && end_ns <= to_ns => self.booked_ns,
            (begin_ns, end_ns) => end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns)),
        }
    }
}

fn stolen(result: &CommandOutput, waits: &[Mapped], bound_ns: u64) -> Result<Vec<LateWakeup>> {
    let result = result.json()?;
    let is_steal = |part: &Value| part["share"] == "steal";
    let worst = list(&result["cpus"][0]["worst"])?.iter();
    let delays = worst.map(|it| {
        let delay = delay(it, &[], is_steal)?;
        let from_ns = it["expiry_mono_ns"].as_u64().context("no expiry")?;
        let span = (from_ns, from_ns + delay.latency_ns);
        Ok(LateWakeup {
            delay: Delay {
                injected_ns: waits.iter().map(|wait| wait.within(span)).sum(),
                ..delay
            },
            is_cut: waits.iter().any(|wait| wait.is_cut(from_ns, bound_ns)),
        })
    });
    delays.collect()
}

/// Returns the waits of the vCPU's thread. A wait lasts from the thread's wake-up or preemption
/// until the thread has a CPU.
fn waits(trace: &str) -> Result<Vec<Wait>> {
    let mut waits = Vec::new();
    let mut since_tsc = None;
    let mut booked_ns = None;
    for line in trace.lines() {
        ensure!(!line.contains(" EVENTS]"), "the trace is not whole: {line}");
        let Some((before, event)) = line.split_once(": sched_") else {
            continue;
        };
        let tsc = before.split_whitespace().next_back();
        let tsc: u64 = tsc.context("a line without time")?.parse()?;
        if let Some(wait) = event.strip_prefix("stat_wait: ") {
            let of_vcpu = wait.starts_with(VCPU);
            let delay = wait.split_once(" delay=").filter(|_| of_vcpu);
            let ns = delay.and_then(|(_, delay)| delay.split(' ').next());
            booked_ns = ns.map(str::parse::<u64>).transpose()?.or(booked_ns);
            continue;
        }
        let (left, came) = event.split_once(" ==> ").unwrap_or((event, ""));
        if left.contains(VCPU) && !came.is_empty() {
            let is_ready = left.contains(" prev_state=R");
            since_tsc = is_ready.then_some(tsc);
        } else if left.contains(VCPU) {
            since_tsc = since_tsc.or(Some(tsc));
        } else if came.contains(VCPU) {
            let booked_ns = booked_ns.take();
            if let Some(begin_tsc) = since_tsc.take() {
                waits.push(Wait {
                    begin_tsc,
                    end_tsc: tsc,
                    booked_ns: booked_ns.context("the scheduler counts no waits")?,
                });
            }
        }
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcpu_waits_from_when_it_could_run_until_it_does() {
        let trace = "\
# tracer: nop
 lab-disturb-95 [000] d..2. 100: sched_waking: comm=CPU 0/KVM pid=87 prio=120 target_cpu=000
 lab-disturb-95 [000] d..2. 130: sched_waking: comm=CPU 0/KVM pid=87 prio=120 target_cpu=000
 lab-disturb-95 [000] d..2. 146: sched_stat_wait: comm=CPU 0/KVM pid=87 delay=44 [ns]
 lab-disturb-95 [000] d..2. 147: sched_stat_wait: comm=kworker pid=9 delay=77 [ns]
 lab-disturb-95 [000] d..2. 150: sched_switch: prev_comm=lab-disturb prev_pid=95 prev_prio=49 \
prev_state=S ==> next_comm=CPU 0/KVM next_pid=87 next_prio=120
 CPU 0/KVM-87 [000] d..2. 180: sched_switch: prev_comm=CPU 0/KVM prev_pid=87 prev_prio=120 \
prev_state=R+ ==> next_comm=rcu_preempt next_pid=15 next_prio=120
 rcu_preempt-15 [000] d..2. 189: sched_stat_wait: comm=CPU 0/KVM pid=87 delay=8 [ns]
 rcu_preempt-15 [000] d..2. 190: sched_switch: prev_comm=rcu_preempt prev_pid=15 prev_prio=120 \
prev_state=I ==> next_comm=CPU 0/KVM next_pid=87 next_prio=120
 CPU 0/KVM-87 [000] d..2. 300: sched_switch: prev_comm=CPU 0/KVM prev_pid=87 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";
        let reported = waits(trace).unwrap();
        let reported = reported
            .iter()
            .map(|it| (it.begin_tsc, it.end_tsc, it.booked_ns));
        let reported: Vec<_> = reported.collect();
        assert_eq!(reported, [(100, 150, 44), (180, 190, 8)]);
        let uncounted = trace.replace("delay=8 ", "");
        assert!(waits(&uncounted).is_err());
        assert!(waits("CPU:0 [LOST 7 EVENTS]\n").is_err());
    }

    #[test]
    fn of_a_wait_that_began_before_what_lies_behind_counts() {
        let wait = Mapped {
            span: (100, 200),
            booked_ns: 97,
        };
        assert_eq!(wait.within((100, 200)), 97);
        assert_eq!(wait.within((150, 300)), 50);
        assert_eq!(wait.within((200, 300)), 0);
    }

    #[test]
    fn a_wait_is_cut_where_it_may_have_begun_before() {
        let wait = Mapped {
            span: (100, 200),
            booked_ns: 97,
        };
        let cut_at = |from_ns| wait.is_cut(from_ns, 5);
        let reported = [95, 96, 150, 204, 205].map(cut_at);
        assert_eq!(reported, [false, true, true, true, false]);
    }
}
