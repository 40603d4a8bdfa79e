//! Compares the settings during a run with the current settings.

use crate::evidence::NoiseEvidence;
use crate::finding::{Audit, Change, Finding, FindingVerdict, SinceRun};
use crate::machine::AuditMachine;
use crate::rule::AuditRule;
use crate::seen::Bad;

impl Audit {
    /// Audits a run by the settings `then`, which the machine had when the run began. Remedies and
    /// changes come from the current settings `now`.
    pub fn of_run(
        rules: &[AuditRule],
        then: &AuditMachine,
        now: &AuditMachine,
        evidence: &NoiseEvidence,
    ) -> Audit {
        let mut audit = Audit::new(rules.to_vec(), then, Some(evidence));
        let mut now = Audit::new(rules.to_vec(), now, None);
        for finding in &mut audit.findings {
            if now.is_well(&finding.rule) {
                let changes = finding.changes.iter_mut();
                changes.for_each(|change| *change = since(SinceRun::WellNow));
            } else if let Some(now) = now.take(&finding.rule) {
                finding.compare(now);
            }
        }
        for mut finding in now.findings {
            let place = audit.good.iter().position(|id| *id == finding.rule.id);
            if let (Some(place), FindingVerdict::CouldMatter) = (place, &finding.verdict) {
                audit.good.remove(place);
                let changes = finding.changes.iter_mut();
                changes.for_each(|change| change.since_run = Some(SinceRun::WellThen));
                audit.findings.push(finding);
            }
        }
        audit
    }

    fn is_well(&self, rule: &AuditRule) -> bool {
        let mut well = self.good.iter().chain(&self.absent);
        well.any(|id| *id == rule.id)
    }

    /// Removes the finding of a rule from the list. Returns the finding; `None` if there is none.
    fn take(&mut self, rule: &AuditRule) -> Option<Finding> {
        let place = self.findings.iter().position(|it| it.rule.id == rule.id)?;
        Some(self.findings.remove(place))
    }
}

impl Finding {
    /// Takes the remedies from the current finding `now`, and adds the changes since the run.
    fn compare(&mut self, now: Finding) {
        if let FindingVerdict::CannotBeRead(_) = now.verdict {
            self.changes.fill(Change::default());
            return;
        }
        let mut left: Vec<(Bad, Change)> = now.bad.into_iter().zip(now.changes).collect();
        for (then, change) in self.bad.iter().zip(&mut self.changes) {
            let is_it = |(now, _): &(Bad, Change)| {
                (&now.path, &now.instance) == (&then.path, &then.instance)
            };
            *change = match left.iter().position(is_it) {
                None => since(SinceRun::WellNow),
                Some(place) => {
                    let (now, change) = left.remove(place);
                    let differs = now.found != then.found;
                    let since_run = differs.then_some(SinceRun::SetTo(now.found));
                    Change {
                        since_run,
                        ..change
                    }
                }
            };
        }
        for (bad, mut change) in left {
            change.since_run = Some(SinceRun::WellThen);
            self.bad.push(bad);
            self.changes.push(change);
        }
    }
}

fn since(since_run: SinceRun) -> Change {
    Change {
        since_run: Some(since_run),
        ..Change::default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use vmnoise_events::{Settings, Share};
    use vmnoise_host::{FileText, Host};

    use super::*;
    use crate::rule::FileTree;
    use crate::rules::all;
    use crate::tree::grown;

    /// Returns an audit by this rule. The run began with the files `then`, and the machine has the
    /// files `now`.
    fn audited(rule: &AuditRule, then: &FileTree, now: &FileTree) -> Audit {
        let recorded = recorded(then);
        let here = grown(now);
        let then = AuditMachine::recorded_under(here.path(), recorded, &[2, 3]).unwrap();
        let now = AuditMachine::under(here.path(), &[2, 3]).unwrap();
        let names = [(Share::Irq, "virtio0-input.0:24"), (Share::Irq, "eno1:25")];
        let evidence = NoiseEvidence::of_names(names.into_iter());
        Audit::of_run(std::slice::from_ref(rule), &then, &now, &evidence)
    }

    fn recorded(tree: &FileTree) -> Settings {
        // A busy machine may delay this test longer than a run would wait.
        let patience = Duration::from_secs(600);
        let root = grown(tree);
        Host::under(root.path()).settings_within(patience).unwrap()
    }

    fn irq_affinity() -> AuditRule {
        let mut rules = all().unwrap().into_iter();
        rules.find(|it| it.id == "irq-affinity").unwrap()
    }

    fn with(tree: &FileTree, files: &[(&str, &str)]) -> FileTree {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).into(), (*text).into()));
        tree.clone().into_iter().chain(files).collect()
    }

    fn since_of(audit: &Audit) -> Vec<Option<SinceRun>> {
        let [finding] = &audit.findings[..] else {
            panic!("{audit:?}");
        };
        let changes = finding.changes.iter();
        changes.map(|it| it.since_run.clone()).collect()
    }

    #[test]
    fn a_run_is_judged_by_how_it_was_set_and_not_by_how_it_is() {
        let rule = irq_affinity();
        let (good, bad) = (&rule.trees.good, &rule.trees.bad);

        let mended = audited(&rule, bad, good);
        assert_eq!(mended.explained_ns, Some(1));
        assert_eq!(since_of(&mended), [Some(SinceRun::WellNow)]);
        assert!(
            mended.findings[0].changes[0].now.is_none(),
            "there is nothing to do"
        );

        let spoiled = audited(&rule, good, bad);
        assert_eq!(
            spoiled.explained_ns,
            Some(0),
            "it was not so when the run was made"
        );
        assert_eq!(since_of(&spoiled), [Some(SinceRun::WellThen)]);
        assert!(spoiled.findings[0].changes[0].now.is_some());
        assert_eq!(spoiled.good, [""; 0]);

        assert_eq!(since_of(&audited(&rule, bad, bad)), [None]);
        assert_eq!(audited(&rule, good, good).good, ["irq-affinity"]);
    }

    #[test]
    fn what_is_to_be_written_back_is_what_is_there_now() {
        let rule = irq_affinity();
        let now = [
            ("proc/irq/24/effective_affinity_list", "3\n"),
            ("proc/irq/24/smp_affinity_list", "2-3\n"),
            ("proc/irq/25/effective_affinity_list", "2\n"),
            ("proc/irq/25/smp_affinity_list", "2\n"),
            ("proc/irq/25/eno1/x", ""),
        ];
        let audit = audited(&rule, &rule.trees.bad, &with(&rule.trees.bad, &now));
        let expected = [Some(SinceRun::SetTo("3".into())), Some(SinceRun::WellThen)];
        assert_eq!(since_of(&audit), expected);
        assert_eq!(
            audit.explained_ns,
            Some(1),
            "interrupt 25 came elsewhere then"
        );
        let write = audit.findings[0].changes[0].now.as_ref().unwrap();
        assert_eq!(write.was, "2-3");
    }

    /// Files that the recording lacks are read from the current machine.
    #[test]
    fn what_the_recording_lacks_is_as_it_is_now() {
        let rule = irq_affinity();
        let recorded = recorded(&rule.trees.bad);
        let here = grown(&rule.trees.bad);
        fs::create_dir_all(here.path().join("proc/sys/kernel")).unwrap();
        fs::write(here.path().join("proc/sys/kernel/other"), "1").unwrap();
        let then = AuditMachine::recorded_under(here.path(), recorded, &[2]).unwrap();
        assert!(then.host().is_some());
        let said = then.read("proc/sys/kernel/other");
        assert_eq!(said, FileText::Text("1".into()));
    }
}
