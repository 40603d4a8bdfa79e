//! Counts the posted interrupts of the polling threads. A gap without other interference is
//! attributed to the hardware only if no posted interrupt came.

use std::time::{Duration, Instant};

use vmnoise_events::{CpuTally, Event, MeasuringCommand, PostedInterrupts, RunFacts};
use vmnoise_host::{Host, PostedCounts};
use vmnoise_workload::tsc;

/// Divisor of a CPU's time: readings take at most one part in `SHARE`. With 128 CPUs the kernel
/// writes a million characters for each reading of /proc/interrupts.
const SHARE: u32 = 1_000;

/// Counters, and the earliest time of the next reading.
#[derive(Debug)]
pub struct PostedInterruptCounts {
    counts: PostedCounts,
    next: Option<Instant>,
}

impl PostedInterruptCounts {
    /// Creates the counters. Returns `None` if no posted interrupt reaches the polling threads, or
    /// if the hardware's gaps cannot be recognised anyway.
    pub fn of(facts: &RunFacts, host: &Host) -> Option<PostedInterruptCounts> {
        let is_wanted = facts.workload == MeasuringCommand::Osnoise
            && facts.may_have_posted_interrupts()
            && !facts.layer_below_unwitnessed()
            && facts.witnesses.see_kernel();
        let counts = is_wanted.then(|| host.posted_counts().ok()).flatten()?;
        Some(PostedInterruptCounts { counts, next: None })
    }

    /// Appends a reading to the events of this drain. It reads at the first drain, and at a drain
    /// with a gap without interference, unless the last reading was too recent. `tallies` are the
    /// tallies of this drain.
    pub fn look(&mut self, tallies: Vec<CpuTally>, events: &mut Vec<Event>) {
        let is_bare =
            |event: &Event| matches!(event, Event::Gap(gap) if gap.interference == Some(0));
        let is_due = match self.next {
            None => !tallies.is_empty(),
            Some(next) => events.iter().any(is_bare) && Instant::now() >= next,
        };
        if !is_due {
            return;
        }
        let begin = Instant::now();
        let from_mono_ns = tsc::anchor().mono_ns;
        let counts = self.counts.read().unwrap_or_default();
        let until_mono_ns = tsc::anchor().mono_ns;
        self.next = Some(begin + pause_after(begin.elapsed()));
        let tallies = tallies.into_iter().filter_map(|tally| {
            let posted = PostedInterrupts {
                count: *counts.get(&tally.cpu)?,
                from_mono_ns,
                until_mono_ns,
            };
            Some(Event::Tally(CpuTally {
                posted: Some(posted),
                ..tally
            }))
        });
        events.extend(tallies);
    }
}

/// Returns the pause that keeps readings of this length at one part in [`SHARE`] of a CPU's time.
fn pause_after(reading: Duration) -> Duration {
    reading * SHARE
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vmnoise_events::{Gap, fixtures};

    use super::*;

    fn gap(interference: u32) -> Event {
        Event::Gap(Gap {
            cpu: 1,
            start_tsc: 10,
            end_tsc: 20,
            steal_ns: 0,
            reloads: 0,
            light_exits: 0,
            heavy_exits: 0,
            interference: Some(interference),
            run_delay_ns: 0,
        })
    }

    fn facts() -> RunFacts {
        let mut facts = fixtures::facts(MeasuringCommand::Osnoise);
        facts.host.posted_interrupts = Some(true);
        facts
    }

    fn host() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let text = "  CPU0 CPU1\n PIN: 3 4\n PIW: 0 5\n";
        fs::write(root.path().join("proc/interrupts"), text).unwrap();
        let host = Host::under(root.path());
        (root, host)
    }

    #[test]
    fn a_reading_follows_each_drain_that_brought_a_bare_gap() {
        let (_root, host) = host();
        let mut posted = PostedInterruptCounts::of(&facts(), &host).unwrap();
        let tally = CpuTally {
            cpu: 1,
            last_tsc: 7,
            ..CpuTally::default()
        };
        let mut look = |before: Event| {
            let mut events = vec![before];
            posted.next = posted.next.map(|_| Instant::now());
            posted.look(vec![tally], &mut events);
            let readings = events.into_iter().filter_map(|event| match event {
                Event::Tally(tally) => Some((tally.last_tsc, tally.posted?.count)),
                _ => None,
            });
            readings.collect::<Vec<_>>()
        };
        let all = vec![(7, 9)];
        assert_eq!(
            look(gap(1)),
            all,
            "the first one has nothing to compare with"
        );
        assert!(look(gap(1)).is_empty());
        assert_eq!(look(gap(0)), all);
    }

    #[test]
    fn readings_take_a_thousandth_of_a_cpu() {
        let (_root, host) = host();
        let mut posted = PostedInterruptCounts::of(&facts(), &host).unwrap();
        let tally = CpuTally {
            cpu: 1,
            ..CpuTally::default()
        };
        posted.look(vec![tally], &mut Vec::new());
        posted.next = Some(Instant::now() + Duration::from_secs(60));
        let mut events = vec![gap(0)];
        posted.look(vec![tally], &mut events);
        assert_eq!(events.len(), 1, "it is too early");
        // On a host with 128 CPUs, a reading may take 4 ms.
        let of_128_cpus = Duration::from_millis(4);
        assert_eq!(pause_after(of_128_cpus), Duration::from_secs(4));
    }

    #[test]
    fn nobody_reads_where_it_would_say_nothing() {
        let (_root, host) = host();
        let changes: [fn(&mut RunFacts); 4] = [
            |facts| facts.host.posted_interrupts = Some(false),
            |facts| facts.host.hypervisor = Some("KVM".into()),
            |facts| facts.witnesses.nmi = false,
            |facts| facts.workload = MeasuringCommand::Microvm,
        ];
        for change in changes {
            let mut facts = facts();
            change(&mut facts);
            assert!(
                PostedInterruptCounts::of(&facts, &host).is_none(),
                "{facts:?}"
            );
        }
    }
}
