//! What a recording says: who took how much of which CPU.

use vmnoise_events::{Name, Share};
use vmnoise_explain::Summary;
use wildmatch::WildMatch;

use crate::look::Bad;
use crate::rule::Signature;

/// The noise of a run, by who took it.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// How long the gaps of all measured CPUs are together, nanoseconds.
    pub noise_ns: u64,
    took: Vec<Took>,
}

/// Somebody's part of a CPU's noise.
#[derive(Debug, Clone)]
struct Took {
    cpu: u32,
    share: Share,
    name: Name,
    ns: u64,
}

/// What a finding explains of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// So much of the noise at most, nanoseconds: whoever is named may have had time for other reasons as well.
    pub ns: u64,
    /// Who took it, the largest first: share, name and nanoseconds over all CPUs.
    pub who: Vec<(Share, Name, u64)>,
}

impl Evidence {
    /// That of a run.
    pub fn of(summary: &Summary) -> Evidence {
        let cpus = summary.cpus.iter();
        let took = cpus.clone().flat_map(|cpu| {
            cpu.sources.iter().map(|source| Took {
                cpu: cpu.cpu,
                share: source.share,
                name: source.name.clone(),
                ns: source.total_ns,
            })
        });
        Evidence {
            noise_ns: cpus
                .clone()
                .map(|cpu| cpu.noise_ns)
                .fold(0, u64::saturating_add),
            took: took.collect(),
        }
    }

    /// What came by what is bad, and marks whose time has a finding.
    pub(crate) fn explained(
        &self,
        signatures: &[Signature],
        bad: &[Bad],
        marks: &mut Vec<bool>,
    ) -> Explained {
        marks.resize(self.took.len(), false);
        let mut who: Vec<(Share, Name, u64)> = Vec::new();
        for (took, mark) in self.took.iter().zip(marks) {
            let matches = bad.iter().any(|bad| {
                let of_cpu = bad
                    .instance
                    .strip_prefix("cpu")
                    .and_then(|cpu| cpu.parse().ok());
                let is_here = of_cpu.is_none_or(|cpu: u32| cpu == took.cpu);
                is_here && signatures.iter().any(|it| is_meant(it, bad, took))
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
        Explained { ns, who }
    }

    /// How much of the noise has a finding, nanoseconds.
    pub(crate) fn marked_ns(&self, marks: &[bool]) -> u64 {
        let marked = self.took.iter().zip(marks).filter(|(_, mark)| **mark);
        marked.map(|(took, _)| took.ns).fold(0, u64::saturating_add)
    }
}

fn is_meant(signature: &Signature, bad: &Bad, took: &Took) -> bool {
    let is = |pattern: &str| {
        let pattern = pattern.replace("{instance}", &bad.instance);
        WildMatch::new(&pattern).matches(&took.name)
    };
    signature.shares.contains(&took.share)
        && is(&signature.who)
        && !signature.but.iter().any(|it| is(it))
}
