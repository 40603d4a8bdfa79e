//! Result of an audit: findings, their verdicts, and their remedies.

use std::cmp::Reverse;

use vmnoise_host::{FileText, cpu_list};

use crate::evidence::{ExplainedNoise, NoiseEvidence};
use crate::look::{chosen, look};
use crate::machine::{AuditMachine, numbers};
use crate::rule::{AuditRule, FactSource};
use crate::seen::{Bad, Seen};
use crate::threads::{AsItIs, as_it_is};

/// Result of checking all rules on one machine.
#[derive(Debug)]
pub struct Audit {
    /// Rules that found a bad setting, or whose setting could not be read. Findings that explain
    /// the most noise come first. Findings that explain equal noise are sorted by name.
    pub findings: Vec<Finding>,
    /// Names of the rules whose settings are good.
    pub good: Vec<String>,
    /// Names of the rules whose settings do not exist on this kernel.
    pub absent: Vec<String>,
    /// Part of the recording's noise that the findings explain, in nanoseconds; `None` without a
    /// recording.
    pub explained_ns: Option<u64>,
    /// For each piece of the evidence: whether a finding explains this piece.
    pub(crate) marks: Vec<bool>,
}

/// A rule that found a bad setting, or whose setting could not be read.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule that was checked.
    pub rule: AuditRule,
    /// How much the finding matters for the recording.
    pub verdict: FindingVerdict,
    /// Files or threads with the bad setting; empty if the setting could not be read.
    pub bad: Vec<Bad>,
    /// Remedy for each element of `bad`, in the same order.
    pub changes: Vec<Change>,
}

/// How much a finding matters for the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingVerdict {
    /// The setting explains this part of the recording's noise.
    Explains(ExplainedNoise),
    /// The setting may matter, but explains no recorded noise; or there is no recording.
    CouldMatter,
    /// The setting cannot be read. Contains the file that this process is not allowed to read.
    CannotBeRead(String),
}

/// Remedy for one bad setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Write to a file that helps at once. `None` if only a restart of the kernel helps, or if no
    /// safe write is known.
    pub now: Option<Write>,
    /// Command that helps at once; `None` if no command is known.
    pub command: Option<ShellCommand>,
    /// Change that takes effect at the next start of the kernel or the VM; `None` if there is none.
    pub reboot: Option<String>,
    /// Advice that needs knowledge beyond the machine's files; `None` if there is none.
    pub advice: Option<String>,
    /// Change of the setting since the run began; `None` without a change, or without a run.
    pub since_run: Option<SinceRun>,
}

/// How a setting has changed since a run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinceRun {
    /// The setting is good now.
    WellNow,
    /// The setting is still bad, and has this value now.
    SetTo(String),
    /// The setting was good when the run began.
    WellThen,
}

/// Write to a file. A shell reads each of the three texts as plain words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Path of the file to write.
    pub file: String,
    /// Value that makes the setting good.
    pub to: String,
    /// Value that restores the earlier state.
    pub was: String,
}

/// Shell command. All its words are plain words for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// Command that makes the setting good.
    pub run: String,
    /// Command that restores the earlier state.
    pub undo: String,
    /// Id of the thread that the command changes, and the thread's start time in clock ticks since
    /// boot. The start time distinguishes threads that had the same id. `None` if the command
    /// changes no thread.
    pub thread: Option<(u32, u64)>,
}

impl Audit {
    /// Checks these rules on a machine. `evidence` comes from a recording of the same machine.
    pub fn new(
        rules: Vec<AuditRule>,
        machine: &AuditMachine,
        evidence: Option<&NoiseEvidence>,
    ) -> Audit {
        let kernel = machine.kernel();
        Audit::by(
            rules,
            |rule| match rule.is_of_kernel(&kernel) {
                true => (look(rule, machine), None),
                false => (Seen::Absent, None),
            },
            |rule, bad| rule.change(bad, machine),
            evidence,
        )
    }

    /// Checks rules. `look` returns the result of a rule's check, and the CPUs on which the setting
    /// takes time (`None` for all). `change` returns the remedy for each bad setting.
    pub(crate) fn by(
        rules: Vec<AuditRule>,
        look: impl Fn(&AuditRule) -> (Seen, Option<Vec<u32>>),
        change: impl Fn(&AuditRule, &Bad) -> Change,
        evidence: Option<&NoiseEvidence>,
    ) -> Audit {
        let (mut findings, mut good, mut absent) = (Vec::new(), Vec::new(), Vec::new());
        let mut marks = Vec::new();
        for rule in rules {
            let (seen, cpus) = look(&rule);
            match seen {
                Seen::Good => good.push(rule.id),
                Seen::Absent => absent.push(rule.id),
                Seen::Denied(path) => findings.push(Finding {
                    rule,
                    verdict: FindingVerdict::CannotBeRead(path),
                    bad: Vec::new(),
                    changes: Vec::new(),
                }),
                Seen::Bad(bad) => {
                    let explained = evidence
                        .map(|it| it.explained(&rule.explains, &bad, cpus.as_deref(), &mut marks));
                    let verdict = match explained {
                        Some(explained) if explained.ns > 0 => FindingVerdict::Explains(explained),
                        _ => FindingVerdict::CouldMatter,
                    };
                    findings.push(Finding {
                        changes: bad.iter().map(|bad| change(&rule, bad)).collect(),
                        rule,
                        verdict,
                        bad,
                    });
                }
            }
        }
        findings.sort_by_key(|finding| Reverse(finding.explained_ns()));
        Audit {
            findings,
            good,
            absent,
            explained_ns: evidence.map(|it| it.marked_ns(&marks)),
            marks,
        }
    }
}

/// Returns how much of the noise at least one of these audits explains, in nanoseconds. All audits
/// must be based on this evidence.
pub fn explained_together(evidence: &NoiseEvidence, audits: &[&Audit]) -> u64 {
    let most = audits.iter().map(|it| it.marks.len()).max().unwrap_or(0);
    let is_marked = |place| audits.iter().any(|it| it.marks.get(place) == Some(&true));
    let marks: Vec<bool> = (0..most).map(is_marked).collect();
    evidence.marked_ns(&marks)
}

impl Finding {
    /// Returns how much noise the finding explains, in nanoseconds; 0 without an explanation.
    pub fn explained_ns(&self) -> u64 {
        match &self.verdict {
            FindingVerdict::Explains(explained) => explained.ns,
            _ => 0,
        }
    }
}

/// Advice if all CPUs were selected, so that no CPU is left for other work.
const CHOOSE: &str =
    "name the CPUs that should be quiet with -c: at least one must be left for other work";

impl AuditRule {
    /// Returns whether the rule applies to a kernel of this version.
    pub(crate) fn is_of_kernel(&self, kernel: &[u32]) -> bool {
        let since = self.since.as_deref().map(numbers);
        let before = self.before.as_deref().map(numbers);
        since.is_none_or(|since| kernel >= &since[..])
            && before.is_none_or(|before| kernel < &before[..])
    }

    pub(crate) fn change(&self, bad: &Bad, machine: &AuditMachine) -> Change {
        let remedy = &self.remedy;
        // The work may have no CPU to which it could move, or on which it could stay.
        let is_all = machine.others.is_empty();
        let can = |text: &str| !is_all || !(text.contains("{others") || text.contains("{cpus"));
        let fill = |text: &str| {
            let text = text.replace("{instance}", &bad.instance);
            let text = text.replace("{file}", &bad.path);
            let text = text.replace("{cpus}", &cpu_list::format(&machine.cpus));
            let text = text.replace("{others_mask}", &mask(&machine.others));
            text.replace("{others}", &cpu_list::format(&machine.others))
        };
        let was = remedy.write.as_deref().map(fill);
        let was = was.map(|path| (machine.read(&path), path));
        let now = was.filter(|_| can(&remedy.to));
        Change {
            now: now.and_then(|(said, path)| {
                let FileText::Text(was) = said else {
                    return None;
                };
                let write = Write {
                    file: format!("/{path}"),
                    to: fill(&remedy.to),
                    was: remedy.was.replace("{was}", &chosen(&was)),
                };
                write.is_plain().then_some(write)
            }),
            command: remedy.run.as_ref().filter(|it| can(it)).and_then(|run| {
                // Only a process that belongs to a service can be stopped and started as this
                // service.
                if let FactSource::NoProcess { name } = &self.look
                    && !is_service(machine, bad, name)
                {
                    return None;
                }
                ShellCommand::new(fill(run), fill(&remedy.undo), as_it_is(machine, bad))
            }),
            reboot: remedy.reboot.as_deref().filter(|it| can(it)).map(fill),
            advice: match (is_all, remedy.advice.as_deref()) {
                (_, Some(advice)) if can(advice) => Some(fill(advice)),
                (true, _) if !remedy.reboot.as_deref().is_none_or(can) => Some(CHOOSE.to_owned()),
                _ => None,
            },
            since_run: None,
        }
    }
}

/// Returns whether the process with the bad setting belongs to the service `name`.
fn is_service(machine: &AuditMachine, bad: &Bad, name: &str) -> bool {
    match machine.read(&format!("proc/{}/cgroup", bad.instance)) {
        FileText::Text(text) => text.contains(&format!("/{name}.service")),
        FileText::Absent | FileText::Denied => false,
    }
}

impl ShellCommand {
    /// Fills in the words for the thread. Returns `None` if a placeholder remains, or if a word is
    /// not plain.
    fn new(run: String, undo: String, is: Option<AsItIs>) -> Option<ShellCommand> {
        let words = is.iter().flat_map(|is| &is.words);
        let (run, undo) = words.fold((run, undo), |(run, undo), (word, is)| {
            (run.replace(word, is), undo.replace(word, is))
        });
        let are_plain = |text: &str| !text.is_empty() && text.split(' ').all(is_plain);
        (are_plain(&run) && are_plain(&undo)).then(|| ShellCommand {
            run,
            undo,
            thread: is.map(|is| is.thread),
        })
    }
}

impl Write {
    /// Returns whether a shell reads each text as plain words. Other names must not get into a
    /// command: a network interface may be called `$(reboot)`.
    fn is_plain(&self) -> bool {
        let words = [&self.file, &self.to, &self.was];
        words.into_iter().all(|word| {
            let bare = word.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
            match bare {
                Some(bare) => bare.split(' ').all(is_plain),
                None => is_plain(word),
            }
        })
    }
}

fn is_plain(word: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "/_-.,:".contains(it);
    !word.is_empty() && word.chars().all(is_plain)
}

/// Formats a mask as the kernel does: words of 32 bits, the highest word first.
fn mask(cpus: &[u32]) -> String {
    let highest = cpus.iter().max().copied().unwrap_or(0) / 32;
    let word = |place: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == place);
        bits.fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let words = (0..=highest)
        .rev()
        .map(|place| format!("{:08x}", word(place)));
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::FileTree;
    use crate::rules::all;
    use crate::tree::grown;

    /// Of four CPUs, CPUs 2 and 3 should be quiet.
    const CPUS: [u32; 2] = [2, 3];

    fn audit(tree: &FileTree, rule: &AuditRule) -> Audit {
        let root = grown(tree);
        let machine = AuditMachine::under(root.path(), &CPUS).unwrap();
        Audit::new(vec![rule.clone()], &machine, None)
    }

    #[test]
    fn each_rule_finds_what_is_bad_in_its_tree_and_nothing_where_all_is_well() {
        for rule in all().unwrap() {
            let good = audit(&rule.trees.good, &rule);
            assert_eq!(good.good.concat(), rule.id, "{good:?}");
            let bad = audit(&rule.trees.bad, &rule);
            let [finding] = &bad.findings[..] else {
                panic!("{}: {bad:?}", rule.id);
            };
            assert_eq!(finding.verdict, FindingVerdict::CouldMatter);
            for change in &finding.changes {
                let is_filled = |text: &String| !text.contains('{');
                assert!(
                    change.reboot.iter().all(is_filled),
                    "{}: {change:?}",
                    rule.id
                );
                // A rule has either a remedy that helps at once, or a change for the next start.
                let write = change.now.iter().map(|write| &write.to);
                let run = change.command.iter().flat_map(|it| [&it.run, &it.undo]);
                let now: Vec<_> = write.chain(run).collect();
                assert!(now.iter().all(|it| is_filled(it)), "{}: {now:?}", rule.id);
                let has_remedy = !now.is_empty() || change.reboot.is_some();
                assert!(has_remedy, "{}: {change:?}", rule.id);
                assert_eq!(
                    (change.now.is_some(), change.command.is_some()),
                    (rule.remedy.write.is_some(), rule.remedy.run.is_some()),
                    "{}",
                    rule.id
                );
            }
            // If the kernel lacks the setting, there is no finding.
            let none = audit(&FileTree::new(), &rule);
            assert_eq!(none.absent.concat(), rule.id, "{none:?}");
        }
    }

    #[test]
    fn a_rule_holds_for_the_kernels_it_names() {
        let rules = all().unwrap();
        let rule = rules.iter().find(|it| it.id == "timer-migration").unwrap();
        let findings = |kernel: &str| {
            let mut tree = rule.trees.bad.clone();
            tree.insert("proc/sys/kernel/osrelease".into(), kernel.into());
            audit(&tree, rule).findings.len()
        };
        assert_eq!(findings("6.18.3-cloud\n"), 1);
        assert_eq!(findings("6.19.0\n"), 0);
        assert_eq!(findings("7.3.1-rt\n"), 0);
    }

    #[test]
    fn nobody_is_told_to_isolate_every_cpu() {
        let rules = all().unwrap();
        for id in ["isolated-cpus", "nohz-full", "rcu-nocbs"] {
            let rule = rules.iter().find(|it| it.id == id).unwrap();
            let root = grown(&rule.trees.bad);
            for (cpus, is_told) in [(&[0, 1, 2, 3][..], false), (&CPUS[..], true)] {
                let machine = AuditMachine::under(root.path(), cpus).unwrap();
                let audit = Audit::new(vec![rule.clone()], &machine, None);
                let change = &audit.findings[0].changes[0];
                assert_eq!(change.reboot.is_some(), is_told, "{id}: {change:?}");
                let chooses = change.advice.as_deref() == Some(CHOOSE);
                assert_eq!(chooses, !is_told, "{id}: {change:?}");
            }
        }
    }

    /// A container sees its own control group as the root.
    #[test]
    fn a_container_has_the_quota_of_its_pod() {
        let rules = all().unwrap();
        let rule = rules.iter().find(|it| it.id == "quota").unwrap();
        let tree = FileTree::from([
            ("proc/self/cgroup".to_owned(), "0::/\n".to_owned()),
            (
                "sys/fs/cgroup/cpu.max".to_owned(),
                "50000 100000\n".to_owned(),
            ),
        ]);
        assert_eq!(audit(&tree, rule).findings[0].bad[0].found, "50000 100000");
    }

    #[test]
    fn what_others_named_is_no_command() {
        let rules = all().unwrap();
        let rule = rules.iter().find(|it| it.id == "rps").unwrap();
        for name in ["$(reboot)", "a;b", "a`b`", "a'b", "a>b"] {
            let path = format!("sys/class/net/{name}/queues/rx-0/rps_cpus");
            let tree = FileTree::from([(path, "f\n".to_owned())]);
            let finding = &audit(&tree, rule).findings[0];
            assert_eq!(finding.bad[0].instance, format!("{name}/0"));
            assert_eq!(finding.changes[0].now, None);
        }
    }

    #[test]
    fn a_thread_gets_what_it_should_have_and_gets_back_what_it_had() {
        let rules = all().unwrap();
        let command = |id: &str| {
            let rule = rules.iter().find(|it| it.id == id).unwrap();
            let finding = &audit(&rule.trees.bad, rule).findings[0];
            let command = finding.changes[0].command.clone().unwrap();
            (command.run, command.undo, command.thread)
        };
        let words = |run: &str, undo: &str| (run.into(), undo.into(), Some((71, 4711)));
        assert_eq!(
            command("emulator-threads"),
            words("taskset -pc 0-1 71", "taskset -pc 0-3 71")
        );
        assert_eq!(
            command("emulator-priority"),
            words("chrt -f -p 50 71", "chrt -o -p 0 71")
        );
        assert_eq!(
            command("vm-nice"),
            words("renice 0 -p 71", "renice 10 -p 71")
        );
    }

    #[test]
    fn what_is_no_service_is_stopped_as_none() {
        for rule in all().unwrap() {
            if let FactSource::NoProcess { .. } = rule.look {
                let mut tree = rule.trees.bad.clone();
                tree.insert("proc/90/cgroup".into(), "0::/user.slice\n".into());
                let finding = &audit(&tree, &rule).findings[0];
                assert_eq!(finding.changes[0].command, None, "{}", rule.id);
            }
        }
    }

    #[test]
    fn the_commands_give_the_work_to_the_other_cpus() {
        let rules = all().unwrap();
        let write = |id: &str| {
            let rule = rules.iter().find(|it| it.id == id).unwrap();
            let finding = &audit(&rule.trees.bad, rule).findings[0];
            let write = finding.changes[0].now.clone().unwrap();
            (write.file, write.to, write.was)
        };
        let words = |file: &str, to: &str, was: &str| (file.into(), to.into(), was.into());
        assert_eq!(
            write("irq-affinity"),
            // The remedy uses the CPUs that were requested for the interrupt, which may be more
            // than the CPUs that handle it.
            words("/proc/irq/24/smp_affinity_list", "0-1", "0-3")
        );
        assert_eq!(
            write("workqueues"),
            words("/sys/devices/virtual/workqueue/cpumask", "00000003", "f")
        );
        assert_eq!(write("thp").2, "always");
        assert_eq!(write("mce-polling").2, "300");
        let group = "/sys/fs/cgroup/user.slice/cpu.max";
        assert_eq!(write("quota"), words(group, "max", "'50000 100000'"));
        assert_eq!(mask(&[0, 33]), "00000002,00000001");
    }
}
