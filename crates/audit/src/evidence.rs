//! Evidence from a recording: how much time each culprit took from each CPU.

#[cfg(test)]
use vmnoise_events::MeasuringCommand;
use vmnoise_events::coverage::Coverage;
use vmnoise_events::{Name, Policy, Share};
use vmnoise_explain::{CpuSummary, JoinedRun, Summary, VmSide};
use wildmatch::WildMatch;

use crate::rule::{Ran, Signature};
use crate::seen::Bad;

/// Noise of a run, by culprit.
#[derive(Debug, Clone)]
pub struct NoiseEvidence {
    /// Total length of the gaps of all measured CPUs, in nanoseconds.
    pub noise_ns: u64,
    /// Number of events that the run lost. If events were lost, a finding may explain more time
    /// than the evidence shows.
    pub lost_events: u64,
    /// Coverage of the recording.
    pub coverage: Coverage,
    took: Vec<Took>,
    /// How the measured threads were scheduled; `None` if unknown.
    ran: Option<Ran>,
}

/// Time that a culprit took from one CPU.
#[derive(Debug, Clone)]
struct Took {
    /// Number of the CPU; `None` if the time belongs to no CPU.
    cpu: Option<u32>,
    share: Share,
    name: Name,
    ns: u64,
}

/// Part of a recording's noise that a finding explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedNoise {
    /// Upper bound of the explained noise, in nanoseconds. The culprits may have taken some of this
    /// time for other reasons.
    pub ns: u64,
    /// Culprits, the largest first: share, name, and nanoseconds over all CPUs.
    pub who: Vec<(Share, Name, u64)>,
}

impl NoiseEvidence {
    /// Returns the evidence of a run whose measured threads had the scheduling policy `priority`.
    pub fn of(summary: &Summary, priority: Option<Policy>) -> NoiseEvidence {
        let cpus = summary.cpus.iter();
        NoiseEvidence {
            noise_ns: cpus
                .clone()
                .map(|cpu| cpu.noise_ns)
                .fold(0, u64::saturating_add),
            lost_events: summary.lost_events,
            coverage: summary.coverage.clone(),
            took: cpus.flat_map(took_of).collect(),
            // In a feed, the host reports the scheduling of its own threads, not that of the
            // measured threads.
            ran: summary.feed.is_none().then_some(Ran::of(priority)),
        }
    }

    /// Returns the time that one side took from the guest's gaps or wake-ups. `side` is the guest
    /// or its host. The measured threads had the scheduling policy `priority`.
    pub fn of_side(run: &JoinedRun, side: VmSide, priority: Option<Policy>) -> NoiseEvidence {
        let of_side = run.culprits.iter().filter(|it| it.side == side);
        let all_ns = run.culprits.iter().map(|it| it.total_ns);
        NoiseEvidence {
            noise_ns: all_ns.fold(0, u64::saturating_add),
            lost_events: run.summary.lost_events.saturating_add(run.host.lost_events),
            coverage: run.summary.coverage.clone(),
            took: of_side
                .map(|it| Took {
                    cpu: it.cpu,
                    share: it.share,
                    name: it.name.clone().unwrap_or_default(),
                    ns: it.total_ns,
                })
                .collect(),
            // On the host, the vCPU's thread waits. Its scheduling is unknown.
            ran: (side == VmSide::Guest).then_some(Ran::of(priority)),
        }
    }

    /// Returns evidence in which each of these culprits took one nanosecond.
    #[cfg(test)]
    pub(crate) fn of_names<'a>(names: impl Iterator<Item = (Share, &'a str)>) -> NoiseEvidence {
        NoiseEvidence {
            noise_ns: 1,
            lost_events: 0,
            coverage: Coverage::of_workload(MeasuringCommand::Osnoise),
            took: names
                .map(|(share, name)| Took {
                    cpu: None,
                    share,
                    name: name.into(),
                    ns: 1,
                })
                .collect(),
            ran: None,
        }
    }

    /// Returns the noise that these bad settings explain. `cpus` limits the noise to these CPUs;
    /// `None` means all. Sets the mark of each piece of evidence that a finding explains.
    pub(crate) fn explained(
        &self,
        signatures: &[Signature],
        bad: &[Bad],
        cpus: Option<&[u32]>,
        marks: &mut Vec<bool>,
    ) -> ExplainedNoise {
        marks.resize(self.took.len(), false);
        let mut who: Vec<(Share, Name, u64)> = Vec::new();
        let is_on = |cpu: Option<u32>| match (cpu, cpus) {
            (Some(cpu), Some(cpus)) => cpus.contains(&cpu),
            _ => true,
        };
        for (took, mark) in self.took.iter().zip(marks) {
            if !is_on(took.cpu) {
                continue;
            }
            let matches = bad.iter().any(|bad| {
                // The instance begins with the number of the file's CPU if the file belongs to one
                // CPU.
                let first = bad.instance.split('/').next();
                let of_cpu = first
                    .and_then(|first| first.strip_prefix("cpu"))
                    .and_then(|cpu| cpu.parse().ok());
                let is_here = of_cpu.is_none_or(|cpu: u32| Some(cpu) == took.cpu);
                let ran = |it: &&Signature| it.ran.is_none_or(|ran| self.ran == Some(ran));
                is_here
                    && signatures
                        .iter()
                        .filter(ran)
                        .any(|it| is_meant(it, bad, took))
            });
            if !matches {
                continue;
            }
            *mark = true;
            match who
                .iter_mut()
                .find(|(share, name, _)| (*share, name) == (took.share, &took.name))
            {
                Some((_, _, ns)) => *ns = ns.saturating_add(took.ns),
                None => who.push((took.share, took.name.clone(), took.ns)),
            }
        }
        who.sort_by_key(|(_, _, ns)| std::cmp::Reverse(*ns));
        let ns = who
            .iter()
            .map(|(_, _, ns)| *ns)
            .fold(0, u64::saturating_add);
        ExplainedNoise { ns, who }
    }

    /// Returns how much of the noise is marked as explained, in nanoseconds.
    pub(crate) fn marked_ns(&self, marks: &[bool]) -> u64 {
        let marked = self.took.iter().zip(marks).filter(|(_, mark)| **mark);
        marked.map(|(took, _)| took.ns).fold(0, u64::saturating_add)
    }
}

impl Ran {
    /// Returns how threads of this policy are scheduled.
    fn of(policy: Option<Policy>) -> Ran {
        match policy {
            None | Some(Policy::Other(_)) => Ran::Ordinary,
            Some(Policy::Fifo(_) | Policy::RoundRobin(_) | Policy::Deadline { .. }) => {
                Ran::RealTime
            }
        }
    }
}

/// Returns the time that each culprit took from the CPU. Time without a culprit has an empty name.
fn took_of(cpu: &CpuSummary) -> Vec<Took> {
    let took = |share, name, ns| Took {
        cpu: Some(cpu.cpu),
        share,
        name,
        ns,
    };
    let named = cpu.sources.iter();
    let named = named.map(|source| took(source.share, source.name.clone(), source.total_ns));
    let nameless = cpu.shares_ns.iter().map(|(share, ns)| {
        let of_share = cpu.sources.iter().filter(|source| source.share == share);
        let named_ns = of_share.fold(0_u64, |sum_ns, it| sum_ns.saturating_add(it.total_ns));
        took(
            share,
            Name::default(),
            ns.unwrap_or(0).saturating_sub(named_ns),
        )
    });
    named.chain(nameless.filter(|it| it.ns > 0)).collect()
}

fn is_meant(signature: &Signature, bad: &Bad, took: &Took) -> bool {
    let is = |pattern: &str| {
        // A `*` in a name from outside must not match other names. The pattern has no escape
        // character, so `*` becomes `?`, which matches any single character.
        let [instance, name] = [&bad.instance, &bad.name].map(|it| it.replace('*', "?"));
        let pattern = pattern
            .replace("{instance}", &instance)
            .replace("{name}", &name);
        WildMatch::new(&pattern).matches(&took.name)
    };
    signature.shares.contains(&took.share)
        && is(&signature.who)
        && !signature.but.iter().any(|it| is(it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::all;

    /// Returns the evidence of two CPUs.
    fn evidence() -> NoiseEvidence {
        let took = |cpu, share, name: &str, ns| Took {
            cpu: Some(cpu),
            share,
            name: name.into(),
            ns,
        };
        let took = vec![
            took(2, Share::Irq, "virtio0-input.0:24", 100),
            took(2, Share::Irq, "local_timer:236", 200),
            took(3, Share::Thread, "bash:7", 30),
            took(2, Share::Thread, "bash:7", 10),
            took(2, Share::Thread, "ksoftirqd/2:19", 5),
            took(2, Share::Thread, "", 1_000),
            took(3, Share::Throttled, "", 50_000),
            took(3, Share::Thread, "sugov:3:9", 4),
        ];
        NoiseEvidence {
            noise_ns: took.iter().map(|it| it.ns).sum(),
            lost_events: 0,
            coverage: Coverage::of_workload(MeasuringCommand::Osnoise),
            took,
            ran: Some(Ran::RealTime),
        }
    }

    fn bad(instance: &str) -> Bad {
        Bad {
            path: String::new(),
            instance: instance.into(),
            name: String::new(),
            found: String::new(),
        }
    }

    fn explained(rule: &str, instances: &[&str], marks: &mut Vec<bool>) -> u64 {
        let rules = all().unwrap();
        let rule = rules.iter().find(|it| it.id == rule).unwrap();
        let bad: Vec<Bad> = instances.iter().map(|it| bad(it)).collect();
        evidence().explained(&rule.explains, &bad, None, marks).ns
    }

    /// Device interrupts, CPU vectors, softirqs and threads all have numbers. Several of them may
    /// have the same number.
    #[test]
    fn a_number_means_nobody_else_who_has_it() {
        const NUMBER: &str = "236";
        let vectors = include_str!("../../tracer/src/bpf/irq_vectors.bpf.h").lines();
        let vectors =
            vectors.filter_map(|line| line.strip_prefix("IRQ_VECTOR(")?.strip_suffix(")"));
        let vectors: Vec<&str> = vectors.collect();
        assert!(vectors.len() > 10, "{vectors:?}");
        // A name, and the shares in which it may occur.
        let of_line = ("eno1", [Share::Irq, Share::HostIrq]);
        let of_task = ("bash", [Share::Thread, Share::Preempted]);
        let others = [
            ("cron", [Share::Thread, Share::Preempted]),
            ("NET_RX", [Share::Softirq, Share::HostSoftirq]),
        ];
        let of_vectors = vectors
            .iter()
            .map(|name| (*name, [Share::Irq, Share::HostIrq]));
        let everybody = [of_line, of_task]
            .into_iter()
            .chain(others)
            .chain(of_vectors);
        let everybody: Vec<(Share, String)> = everybody
            .flat_map(|(name, shares)| shares.map(|share| (share, format!("{name}:{NUMBER}"))))
            .collect();
        let names = everybody.iter().map(|(share, name)| (*share, &**name));
        let evidence = NoiseEvidence::of_names(names);
        let mut seen = 0;
        for rule in all().unwrap() {
            if !rule.explains.iter().any(|it| it.who.contains("{instance}")) {
                continue;
            }
            let (name, shares) = match &*rule.id {
                "irq-affinity" => of_line,
                _ => of_task,
            };
            let bad = Bad {
                name: name.into(),
                ..bad(NUMBER)
            };
            let explained = evidence.explained(&rule.explains, &[bad], None, &mut Vec::new());
            let mut who = explained
                .who
                .iter()
                .map(|(share, name, _)| (*share, &**name));
            let meant = format!("{name}:{NUMBER}");
            assert!(
                who.by_ref().eq(shares.map(|share| (share, &*meant))),
                "{}: {explained:?}",
                rule.id
            );
            seen += 1;
        }
        assert!(seen > 4, "{seen}");
    }

    /// A thread may have the name `*`.
    #[test]
    fn a_star_in_a_name_means_no_other_name() {
        let rules = all().unwrap();
        let rule = rules.iter().find(|it| it.id == "heavier-threads").unwrap();
        let explained = |name: &str, instance: &str| {
            let bad = Bad {
                name: name.to_owned(),
                ..bad(instance)
            };
            let explains = &rule.explains;
            evidence()
                .explained(explains, &[bad], None, &mut Vec::new())
                .ns
        };
        assert_eq!(explained("bash", "7"), 30 + 10);
        assert_eq!(explained("b*", "7"), 0);
        assert_eq!(explained("*", "*"), 0);
    }

    #[test]
    fn a_finding_explains_those_it_lets_in_and_nobody_else() {
        let explained = |rule, instances: &[&str]| explained(rule, instances, &mut Vec::new());
        assert_eq!(explained("irq-affinity", &["24"]), 100);
        assert_eq!(explained("irq-affinity", &["25", "2"]), 0);
        assert_eq!(explained("nohz-full", &[""]), 200);
        // The CPU's own kernel threads, and time without a name, are not explained.
        assert_eq!(explained("isolated-cpus", &[""]), 30 + 10 + 4);
        // Throttled time has no culprit's name, so all of the share is explained.
        assert_eq!(explained("rt-throttling", &[""]), 50_000);
        // Only the time of the CPU with the bad setting is explained.
        assert_eq!(explained("governor", &["cpu3"]), 4);
        assert_eq!(explained("governor", &["cpu2"]), 0);
        assert_eq!(explained("governor", &["cpu3/state1"]), 4);
        assert_eq!(explained("governor", &["cpu2/state1"]), 0);
        assert_eq!(explained("skew-tick", &[""]), 0);
    }

    #[test]
    fn who_was_kept_waiting_is_who_has_the_limit() {
        let explained = |rule: &str, ran| {
            let rules = all().unwrap();
            let rule = rules.iter().find(|it| it.id == rule).unwrap();
            let evidence = NoiseEvidence { ran, ..evidence() };
            let explained = evidence.explained(&rule.explains, &[bad("")], None, &mut Vec::new());
            explained.ns
        };
        // A quota does not limit real-time threads, and the real-time limit does not throttle other
        // threads.
        assert_eq!(explained("quota", Some(Ran::Ordinary)), 50_000);
        assert_eq!(explained("quota", Some(Ran::RealTime)), 0);
        assert_eq!(explained("rt-throttling", Some(Ran::Ordinary)), 0);
        // A host reported the scheduling of its own threads.
        assert_eq!(explained("quota", None), 0);
        assert_eq!(explained("rt-throttling", None), 0);
    }

    #[test]
    fn a_thread_is_known_by_its_number_and_its_name() {
        let rules = all().unwrap();
        let rule = rules.iter().find(|it| it.id == "heavier-threads").unwrap();
        let explained = |name: &str, tid: &str| {
            let bad = Bad {
                name: name.into(),
                ..bad(tid)
            };
            let explained = evidence().explained(&rule.explains, &[bad], None, &mut Vec::new());
            explained.ns
        };
        assert_eq!(explained("bash", "7"), 40);
        // Another thread has the same number now.
        assert_eq!(explained("cron", "7"), 0);
        assert_eq!(explained("bash", "8"), 0);
    }

    #[test]
    fn time_that_two_findings_explain_counts_once() {
        let mut marks = Vec::new();
        let both = explained("isolated-cpus", &[""], &mut marks)
            + explained("governor", &["cpu3"], &mut marks);
        assert_eq!(both, 48);
        assert_eq!(evidence().marked_ns(&marks), 44);
    }
}
