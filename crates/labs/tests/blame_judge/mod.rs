//! Judges whom a run of `vmnoise microvm` blames, gap by gap, against what the host's scheduler
//! has in its books.

use std::time::Duration;

use serde_json::Value;
use vmnoise_labs::{Run, schedstat};
use vmnoise_workload::tsc;

/// How far the book of a task that runs may lag behind: it is charged at each switch and at
/// each tick (kernel/sched/fair.c, `update_curr`), of 100 Hz in the slowest kernel in use.
const TICK_NS: u64 = 10_000_000;
/// The shares of a vCPU that could run and had no CPU.
const WAITS: [&str; 3] = ["preempted", "throttled", "steal"];
/// The shares of interrupts.
const INTERRUPTS: [&str; 3] = ["host_irq", "host_softirq", "host_nmi"];

/// One look at the books, by the TSC, which is also that of the gaps.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    begin_tsc: u64,
    end_tsc: u64,
    /// What the culprit has had of a CPU, nanoseconds.
    culprit_ns: u64,
    /// How long the vCPU has waited for one, nanoseconds.
    run_delay_ns: u64,
}

/// Looks at a culprit's and at the vCPU's book until one of the two is gone.
pub fn looks(run: &Run, culprit: (u32, u32)) -> Vec<Look> {
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
        looks.push(Look {
            begin_tsc,
            end_tsc: tsc::now(),
            culprit_ns,
            run_delay_ns,
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One gap of a run.
#[derive(Debug, Clone, Copy)]
pub struct Gap<'a>(&'a Value);

impl Gap<'_> {
    /// Where it begins, by the TSC.
    pub fn start_tsc(self) -> u64 {
        self.0["start_tsc"].as_u64().unwrap()
    }

    /// Where it ends.
    pub fn end_tsc(self) -> u64 {
        self.0["end_tsc"].as_u64().unwrap()
    }

    /// How long it is, nanoseconds.
    pub fn length_ns(self) -> u64 {
        self.0["dur_ns"].as_u64().unwrap()
    }

    /// How many nanoseconds a cycle of the TSC has.
    pub fn ns_per_cycle(self) -> f64 {
        self.length_ns() as f64 / (self.end_tsc() - self.start_tsc()) as f64
    }

    /// What the parts of it have that are wanted.
    pub fn booked_ns(self, wanted: impl Fn(&Value) -> bool) -> u64 {
        let parts = self.0["parts"].as_array().unwrap().iter();
        let wanted = parts.filter(|part| wanted(part));
        wanted.filter_map(|part| part["ns"].as_u64()).sum()
    }

    /// What these shares have of it.
    pub fn shares_ns(self, shares: &[&str]) -> u64 {
        self.booked_ns(|part| shares.iter().any(|share| part["share"] == *share))
    }

    /// What interrupts have of it.
    pub fn interrupts_ns(self) -> u64 {
        self.shares_ns(&INTERRUPTS)
    }

    /// What a task has of it, whose name ends so.
    pub fn preempted_ns(self, name: &str) -> u64 {
        let is_it = |part: &Value| part["source"].as_str().is_some_and(|it| it.ends_with(name));
        self.booked_ns(|part| part["share"] == "preempted" && is_it(part))
    }
}

/// All gaps of a run that was asked for each (`--top`), in the order of time.
pub fn gaps(summary: &Value) -> Vec<Gap<'_>> {
    assert_eq!(summary["losses"]["mailbox_full"], 0, "gaps were lost");
    let worst = summary["worst"].as_array().unwrap();
    assert_eq!(
        Some(worst.len() as u64),
        summary["cpus"][0]["gaps"].as_u64()
    );
    let mut gaps: Vec<Gap<'_>> = worst.iter().map(Gap).collect();
    gaps.sort_by_key(|gap| gap.start_tsc());
    gaps
}

/// How many events of the run lack their counterpart: the kernel hid a switch, and the scheduler's
/// books did not tell enough to rebuild it. Of all gaps at most one in 20 may be excused by that, as
/// of all activities in the tracer's own tests: with one for each gap, nobody would have to be
/// named at all.
pub fn unpaired(summary: &Value, gaps: &[Gap<'_>]) -> usize {
    let unpaired = summary["losses"]["unpaired"].as_u64().unwrap() as usize;
    assert!(
        unpaired * 20 < gaps.len(),
        "{unpaired} unpaired, {} gaps",
        gaps.len()
    );
    unpaired
}

/// What can be missing from the witnesses of these gaps where the kernel hid this many switches.
/// Each hid a turn in one gap. The vCPU waited for as long as it lasted, which its steal clock
/// tells, and nobody is named for it: it is `steal` there.
pub fn hidden_ns(gaps: &[Gap<'_>], unpaired: usize) -> u64 {
    let mut steal: Vec<u64> = gaps.iter().map(|gap| gap.shares_ns(&["steal"])).collect();
    steal.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    steal.iter().take(unpaired).sum()
}

/// Between the first look in the time of these gaps and the last, what is booked is what the
/// scheduler has booked: of the culprit, and of the vCPU's waits.
pub fn assert_booked(summary: &Value, culprit: &str, looks: &[Look]) {
    let gaps = gaps(summary);
    let (first, last) = (gaps.first().unwrap(), gaps.last().unwrap());
    let inside = |look: &&Look| look.begin_tsc > first.end_tsc() && look.end_tsc < last.start_tsc();
    let mut looks = looks.iter().filter(inside);
    let (begin, end) = (looks.next().unwrap(), looks.next_back().unwrap());
    // The gaps between the looks for sure, and with those that somebody looked into.
    let between = |gap: &&Gap<'_>| gap.start_tsc() > begin.end_tsc && gap.end_tsc() < end.begin_tsc;
    let touched = |gap: &&Gap<'_>| gap.end_tsc() > begin.begin_tsc && gap.start_tsc() < end.end_tsc;
    let surely: Vec<Gap<'_>> = gaps.iter().filter(between).copied().collect();
    let perhaps: Vec<Gap<'_>> = gaps.iter().filter(touched).copied().collect();
    let sum = |gaps: &[Gap<'_>], of: &dyn Fn(Gap<'_>) -> u64| -> u64 {
        gaps.iter().map(|gap| of(*gap)).sum()
    };
    let preempted_ns = |gap: Gap<'_>| gap.preempted_ns(culprit);
    let waits_ns = |gap: Gap<'_>| gap.shares_ns(&WAITS);
    let hidden_ns = hidden_ns(&gaps, unpaired(summary, &gaps));
    // An interrupt is charged to the task that it interrupts, and to the wait of who waits.
    let interrupts_ns = sum(&perhaps, &|gap| gap.interrupts_ns());

    let took_ns = end.culprit_ns - begin.culprit_ns;
    let named_ns = [&surely, &perhaps].map(|gaps| sum(gaps, &preempted_ns));
    let waited_ns = end.run_delay_ns - begin.run_delay_ns;
    let booked_ns = sum(&surely, &waits_ns);
    let reported = format!(
        "{culprit} took {took_ns} ns, named {named_ns:?} ns; the vCPU waited {waited_ns} ns, booked \
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

/// The steal clock is the scheduler's book of the vCPU, which was looked at until the run was over:
/// KVM writes it there for the guest, which reads it at the end of a gap.
pub fn assert_steal_clock(summary: &Value, looks: &[Look]) {
    let gaps = gaps(summary);
    let (first, last) = (gaps.first().unwrap(), gaps.last().unwrap());
    let inside = |look: &&Look| look.begin_tsc > first.end_tsc() && look.end_tsc < last.start_tsc();
    let mut during = looks.iter().filter(inside);
    let (begin, end) = (during.next().unwrap(), during.next_back().unwrap());
    let least_ns = end.run_delay_ns - begin.run_delay_ns;
    let cpu = &summary["cpus"][0];
    let [steal_ns, gap_ns] = ["steal_clock_ns", "max_gap_ns"].map(|key| cpu[key].as_u64().unwrap());
    // What the last look lacks is one wait, and so no more than a gap.
    let most_ns = looks.last().unwrap().run_delay_ns + gap_ns;
    println!("steal clock {steal_ns} ns, run delay {least_ns} to {most_ns} ns");
    assert!((least_ns..=most_ns).contains(&steal_ns));
}
