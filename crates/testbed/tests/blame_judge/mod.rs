//! Checks the culprits of a run of `vmnoise microvm`, gap by gap, against the counts of the host's
//! scheduler.

use std::time::Duration;

use serde_json::Value;
use vmnoise_testbed::{VmnoiseRun, schedstat};
use vmnoise_workload::tsc;

/// Maximum delay of the scheduler's count for a running task, nanoseconds. The scheduler updates
/// the count at each switch and at each tick (kernel/sched/fair.c, `update_curr`). The lowest tick
/// rate in use is 100 Hz.
const TICK_NS: u64 = 10_000_000;
/// Shares for time in which a vCPU was ready to run and had no CPU.
const WAITS: [&str; 3] = ["preempted", "throttled", "steal"];
/// Shares for the time of interrupts.
const INTERRUPTS: [&str; 3] = ["host_irq", "host_softirq", "host_nmi"];

/// One read of the scheduler's counts. Its times are on the TSC, which the gaps use too.
#[derive(Debug, Clone, Copy)]
pub struct SchedstatReading {
    begin_tsc: u64,
    end_tsc: u64,
    /// CPU time of the culprit, nanoseconds.
    culprit_ns: u64,
    /// Total time that the vCPU's thread has waited for a CPU, nanoseconds.
    run_delay_ns: u64,
}

/// Reads the scheduler's counts of a culprit and of the vCPU again and again, until one of them has
/// ended.
pub fn looks(run: &VmnoiseRun, culprit: (u32, u32)) -> Vec<SchedstatReading> {
    let (pid, vcpu) = (run.pid(), run.vcpu_tid().unwrap());
    let mut looks = Vec::new();
    loop {
        let begin_tsc = tsc::now();
        let books = schedstat::read(culprit.0, culprit.1).and_then(|culprit| {
            anyhow::Ok((culprit.on_cpu_ns, schedstat::read(pid, vcpu)?.run_delay_ns))
        });
        let Ok((culprit_ns, run_delay_ns)) = books else {
            return looks;
        };
        looks.push(SchedstatReading {
            begin_tsc,
            end_tsc: tsc::now(),
            culprit_ns,
            run_delay_ns,
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One gap that a run lists.
#[derive(Debug, Clone, Copy)]
pub struct BlamedGap<'a>(&'a Value);

impl BlamedGap<'_> {
    /// Returns the TSC at the start of the gap.
    pub fn start_tsc(self) -> u64 {
        self.0["start_tsc"].as_u64().unwrap()
    }

    /// Returns the TSC at the end of the gap.
    pub fn end_tsc(self) -> u64 {
        self.0["end_tsc"].as_u64().unwrap()
    }

    /// Returns the length of the gap in nanoseconds.
    pub fn length_ns(self) -> u64 {
        self.0["dur_ns"].as_u64().unwrap()
    }

    /// Returns the number of nanoseconds per cycle of the TSC.
    pub fn ns_per_cycle(self) -> f64 {
        self.length_ns() as f64 / (self.end_tsc() - self.start_tsc()) as f64
    }

    /// Returns the sum of the gap's parts for which `wanted` returns true, nanoseconds.
    pub fn booked_ns(self, wanted: impl Fn(&Value) -> bool) -> u64 {
        let parts = self.0["parts"].as_array().unwrap().iter();
        let wanted = parts.filter(|part| wanted(part));
        wanted.filter_map(|part| part["ns"].as_u64()).sum()
    }

    /// Returns the sum of the gap's parts in these shares, nanoseconds.
    pub fn shares_ns(self, shares: &[&str]) -> u64 {
        self.booked_ns(|part| shares.iter().any(|share| part["share"] == *share))
    }

    /// Returns the time of interrupts in the gap, nanoseconds.
    pub fn interrupts_ns(self) -> u64 {
        self.shares_ns(&INTERRUPTS)
    }

    /// Returns the time in the gap that tasks took whose name ends with `name`, nanoseconds.
    pub fn preempted_ns(self, name: &str) -> u64 {
        let is_it = |part: &Value| part["source"].as_str().is_some_and(|it| it.ends_with(name));
        self.booked_ns(|part| part["share"] == "preempted" && is_it(part))
    }
}

/// Returns all gaps in order of time. The run must list each gap (`--top`).
pub fn gaps(summary: &Value) -> Vec<BlamedGap<'_>> {
    assert_eq!(summary["losses"]["mailbox_full"], 0, "gaps were lost");
    let worst = summary["worst"].as_array().unwrap();
    assert_eq!(
        Some(worst.len() as u64),
        summary["cpus"][0]["gaps"].as_u64()
    );
    let mut gaps: Vec<BlamedGap<'_>> = worst.iter().map(BlamedGap).collect();
    gaps.sort_by_key(|gap| gap.start_tsc());
    gaps
}

/// Returns how many events of the run lack their counterpart. The kernel hid a switch, and the
/// scheduler's counts were not enough to rebuild it. At most one gap in 20 may be affected, as in
/// the tracer's own tests. If every gap could be affected, the test would pass even if no culprit
/// had a name.
pub fn unpaired(summary: &Value, gaps: &[BlamedGap<'_>]) -> usize {
    let unpaired = summary["losses"]["unpaired"].as_u64().unwrap() as usize;
    assert!(
        unpaired * 20 < gaps.len(),
        "{unpaired} unpaired, {} gaps",
        gaps.len()
    );
    unpaired
}

/// Returns the time that may be missing from named culprits because the kernel hid this many
/// switches, nanoseconds. Each hidden switch hides the culprit of one gap. The vCPU's steal clock
/// shows that the vCPU waited, so this time is `steal` without a name.
pub fn hidden_ns(gaps: &[BlamedGap<'_>], unpaired: usize) -> u64 {
    let mut steal: Vec<u64> = gaps.iter().map(|gap| gap.shares_ns(&["steal"])).collect();
    steal.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    steal.iter().take(unpaired).sum()
}

/// Asserts that the attributed time equals the scheduler's counts between the first and the last
/// read during these gaps. This is checked for the culprit's CPU time and for the vCPU's waits.
pub fn assert_booked(summary: &Value, culprit: &str, looks: &[SchedstatReading]) {
    let gaps = gaps(summary);
    let (first, last) = (gaps.first().unwrap(), gaps.last().unwrap());
    let inside = |look: &&SchedstatReading| {
        look.begin_tsc > first.end_tsc() && look.end_tsc < last.start_tsc()
    };
    let mut looks = looks.iter().filter(inside);
    let (begin, end) = (looks.next().unwrap(), looks.next_back().unwrap());
    // Gaps that lie completely between the two reads, and gaps that may overlap a read.
    let between =
        |gap: &&BlamedGap<'_>| gap.start_tsc() > begin.end_tsc && gap.end_tsc() < end.begin_tsc;
    let touched =
        |gap: &&BlamedGap<'_>| gap.end_tsc() > begin.begin_tsc && gap.start_tsc() < end.end_tsc;
    let surely: Vec<BlamedGap<'_>> = gaps.iter().filter(between).copied().collect();
    let perhaps: Vec<BlamedGap<'_>> = gaps.iter().filter(touched).copied().collect();
    let sum = |gaps: &[BlamedGap<'_>], of: &dyn Fn(BlamedGap<'_>) -> u64| -> u64 {
        gaps.iter().map(|gap| of(*gap)).sum()
    };
    let preempted_ns = |gap: BlamedGap<'_>| gap.preempted_ns(culprit);
    let waits_ns = |gap: BlamedGap<'_>| gap.shares_ns(&WAITS);
    let hidden_ns = hidden_ns(&gaps, unpaired(summary, &gaps));
    // The scheduler charges an interrupt to the task that it interrupts, and to the wait of a
    // waiting task.
    let interrupts_ns = sum(&perhaps, &|gap| gap.interrupts_ns());

    let took_ns = end.culprit_ns - begin.culprit_ns;
    let named_ns = [&surely, &perhaps].map(|gaps| sum(gaps, &preempted_ns));
    let waited_ns = end.run_delay_ns - begin.run_delay_ns;
    let booked_ns = sum(&surely, &waits_ns);
    let reported = format!(
        "{culprit} took {took_ns} ns, named {named_ns:?} ns; the vCPU waited {waited_ns} ns, attributed \
         {booked_ns} ns; interrupts {interrupts_ns} ns, hidden {hidden_ns} ns; {} of {} gaps",
        perhaps.len(),
        gaps.len()
    );
    println!("{reported}");
    assert!(
        took_ns > 5 * TICK_NS,
        "it had the CPU too little: {reported}"
    );
    assert!(named_ns[0] <= took_ns + TICK_NS, "{reported}");
    assert!(
        named_ns[1] + interrupts_ns + hidden_ns + TICK_NS >= took_ns,
        "{reported}"
    );
    assert!(booked_ns <= waited_ns, "{reported}");
}

/// Asserts that the steal clock equals the scheduler's run delay of the vCPU. The run delay was
/// read until the end of the run. KVM copies the run delay for the guest, which reads it at the end
/// of a gap.
pub fn assert_steal_clock(summary: &Value, looks: &[SchedstatReading]) {
    let gaps = gaps(summary);
    let (first, last) = (gaps.first().unwrap(), gaps.last().unwrap());
    let inside = |look: &&SchedstatReading| {
        look.begin_tsc > first.end_tsc() && look.end_tsc < last.start_tsc()
    };
    let mut during = looks.iter().filter(inside);
    let (begin, end) = (during.next().unwrap(), during.next_back().unwrap());
    let least_ns = end.run_delay_ns - begin.run_delay_ns;
    let cpu = &summary["cpus"][0];
    let [steal_ns, gap_ns] = ["steal_clock_ns", "max_gap_ns"].map(|key| cpu[key].as_u64().unwrap());
    // The last read may lack one wait, which is at most as long as the longest gap.
    let most_ns = looks.last().unwrap().run_delay_ns + gap_ns;
    println!("steal clock {steal_ns} ns, run delay {least_ns} to {most_ns} ns");
    assert!((least_ns..=most_ns).contains(&steal_ns));
}
