//! Shows the longest gaps, wake-ups or exits as trees of phases, exits and shares. The lines of
//! each level add up to the line above them.

use std::collections::HashMap;

use vmnoise_events::{MeasuringCommand, Share};
use vmnoise_explain::{Most, NamedInterval, NamedPart, TreeBranch, What};

use crate::figures::{duration, times};
use crate::phases;
use crate::run::{ReportedRun, RunOutcome};
use crate::shares::label;

/// Suffix of activities that the guest's own kernel recorded.
const GUEST: &str = ", guest";

/// A gap, wake-up or exit with its parts, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) lines: Vec<Line>,
    /// Caveat about the data; may be empty.
    pub(crate) flaw: String,
}

/// Line of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Level of the line: 0 for the parts of the gap, wake-up or exit itself.
    pub(crate) depth: u8,
    /// Share of the line's time; `None` for a phase or an exit.
    pub(crate) share: Option<Share>,
    pub(crate) words: String,
    pub(crate) ns: u64,
}

/// Words that depend on the kind of run.
#[derive(Debug, Clone, Copy)]
struct Words {
    /// Suffix of names that the guest's kernel recorded.
    side: &'static str,
    /// Name of the zero point for the begins of exits.
    since: &'static str,
}

/// Returns the trees of a run. The key has the number of the CPU or vCPU and the begin in
/// CLOCK_MONOTONIC nanoseconds. Empty if the recording's parts are not divided further.
pub(crate) fn trees(run: &ReportedRun, most: Most) -> HashMap<(u32, u64), Tree> {
    let of_gaps = Words {
        // A microVM has no kernel of its own, so its host recorded the names.
        side: match run.facts.workload {
            MeasuringCommand::Microvm => "",
            _ => GUEST,
        },
        since: "the gap’s start",
    };
    let of_tasks = Words {
        side: GUEST,
        since: "the expiry",
    };
    let gaps = match &run.outcome {
        RunOutcome::Joined(joined) => joined.trees.as_slice(),
        _ => &[],
    };
    let late = run.latencies().map(|it| it.trees.as_slice());
    let alone = match late {
        Some(_) => &[],
        None => run.wakeups().map_or(&[][..], |it| &it.worst),
    };
    let gaps = gaps.iter().map(|tree| (tree, of_gaps));
    let late = late.into_iter().flatten().map(|tree| (tree, of_tasks));
    let joined = gaps.chain(late).map(|(tree, words)| {
        let mut flaw = match tree.witnessed {
            true => String::new(),
            false => "The host did not record it. ".into(),
        };
        if let lost @ 1.. = tree.of.lost_activities() {
            flaw += &format!("{lost} of the guest’s activities were lost. ");
        }
        let lines = words.lines(&tree.branches(most));
        (at(&tree.of), Tree { lines, flaw })
    });
    let alone = alone.iter().map(|late| {
        let words = Words {
            side: "",
            ..of_tasks
        };
        let lines = words.lines(&late.phases());
        let flaw = String::new();
        (at(late), Tree { lines, flaw })
    });
    joined.chain(alone).collect()
}

fn at(of: &NamedInterval) -> (u32, u64) {
    (of.cpu, of.start_mono_ns)
}

impl Words {
    fn lines(self, branches: &[TreeBranch<'_>]) -> Vec<Line> {
        let mut lines = Vec::new();
        self.add(branches, 0, &mut lines);
        lines
    }

    fn add(self, branches: &[TreeBranch<'_>], depth: u8, lines: &mut Vec<Line>) {
        for TreeBranch { ns, what, parts } in branches {
            lines.push(Line {
                depth,
                share: what.share(),
                words: self.of(what),
                ns: *ns,
            });
            self.add(parts, depth + 1, lines);
        }
    }

    fn of(self, what: &What<'_>) -> String {
        match what {
            What::Phase(phase) => phases::label(*phase).to_owned(),
            What::Guest(part) => who(part) + self.side,
            What::Host(part) => who(part),
            What::Exit(exit) => format!(
                "exit {}{}, host CPU {}, {} after {}",
                exit.reason,
                if exit.heavy { " to the VMM" } else { "" },
                exit.exit_cpu,
                duration(exit.after_ns),
                self.since,
            ),
            What::Rest(Share::Steal) => {
                format!("{} by the steal clock alone", label(Share::Steal))
            }
            What::Rest(share) => label(*share).to_owned(),
            What::ShorterExits(count) => times(*count as u64, "shorter exit", "shorter exits"),
            What::SmallerParts(count) => times(*count as u64, "smaller part", "smaller parts"),
        }
    }
}

fn who(part: &NamedPart) -> String {
    let name = part.source.iter().map(|name| format!(" {name}"));
    let place = part.host_cpu.map(|cpu| format!(", host CPU {cpu}"));
    let words = std::iter::once(label(part.share).to_owned()).chain(name);
    words.chain(place).collect()
}

#[cfg(test)]
mod tests {
    use vmnoise_explain::{Detail, ExitBranch, Stretch, WakeupDetail};

    use super::*;

    fn exit(after_ns: u64, parts: &[(Share, &str, u64)]) -> ExitBranch {
        let parts = parts.iter().map(|(share, name, ns)| NamedPart {
            phase: None,
            share: *share,
            source: Some((*name).into()),
            host_cpu: (*share == Share::Preempted).then_some(3),
            ns: *ns,
            count: 1,
        });
        let parts: Vec<NamedPart> = parts.collect();
        ExitBranch {
            reason: "hlt".into(),
            heavy: false,
            exit_cpu: 3,
            entry_cpu: 3,
            after_ns,
            dur_ns: parts.iter().map(|part| part.ns).sum(),
            parts,
            pieces: Vec::new(),
        }
    }

    fn late(exits: Vec<ExitBranch>, steal_ns: u64, residual_ns: u64) -> vmnoise_explain::JoinTree {
        vmnoise_explain::JoinTree {
            of: NamedInterval {
                cpu: 0,
                at_ns: 0,
                start_mono_ns: 0,
                dur_ns: exits.iter().map(|exit| exit.dur_ns).sum::<u64>() + steal_ns + residual_ns,
                parts: Vec::new(),
                detail: Detail::Wakeup(WakeupDetail::default()),
            },
            stretches: vec![Stretch {
                exits,
                steal_ns,
                residual_ns,
                ..Stretch::default()
            }],
            residual: Share::Unexplained,
            witnessed: true,
        }
    }

    const WORDS: Words = Words {
        side: GUEST,
        since: "the expiry",
    };

    #[test]
    fn every_level_adds_up_however_little_is_drawn() {
        let exits = vec![
            exit(
                10,
                &[(Share::Preempted, "rcuc/3:30", 70), (Share::Kvm, "hlt", 20)],
            ),
            exit(200, &[(Share::Kvm, "hlt", 5)]),
            exit(300, &[(Share::Kvm, "hlt", 400)]),
        ];
        let tree = late(exits, 7, 3);
        for (exits, parts) in [(2, 1), (0, 0), (9, 9)] {
            for evenly in [false, true] {
                let most = Most {
                    exits,
                    parts,
                    evenly,
                };
                let mut lines = Vec::new();
                WORDS.add(&tree.branches(most)[0].parts, 1, &mut lines);
                let sum = |depth| -> u64 {
                    let of_depth = lines.iter().filter(|line| line.depth == depth);
                    of_depth.map(|line| line.ns).sum()
                };
                assert_eq!(sum(1), 90 + 5 + 400 + 7 + 3, "{lines:?}");
                let drawn = lines.iter().filter(|line| line.words.starts_with("exit "));
                assert_eq!(sum(2), drawn.map(|line| line.ns).sum::<u64>(), "{lines:?}");
            }
        }
    }

    #[test]
    fn who_it_was_is_reported_with_its_place() {
        let exits = vec![exit(500, &[(Share::Preempted, "rcuc/3:30", 70)])];
        let tree = late(exits, 0, 0);
        let most = Most {
            exits: 1,
            parts: 1,
            evenly: false,
        };
        let lines = WORDS.lines(&tree.branches(most));
        let words: Vec<&str> = lines[1..].iter().map(|line| &*line.words).collect();
        assert_eq!(
            words,
            [
                "exit hlt, host CPU 3, 500\u{a0}ns after the expiry",
                "preempted by a host task rcuc/3:30, host CPU 3"
            ]
        );
    }
}
