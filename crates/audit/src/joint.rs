//! Checks a guest together with its host. Settings that are good on each side alone may be bad for
//! the pair.

use vmnoise_explain::VmSide;
use vmnoise_host::FileText;

use crate::evidence::NoiseEvidence;
use crate::finding::{Audit, Change};
use crate::look;
use crate::machine::AuditMachine;
use crate::rule::{AuditRule, FactSource, Is, SideCondition, Signature};
use crate::seen::{Bad, Seen};

/// A guest and its host, with the vCPUs to check.
#[derive(Debug, Clone, Copy)]
pub struct AuditedPair<'a> {
    /// The guest. Its selected CPUs are the ones that run as vCPUs of the host.
    pub guest: &'a AuditMachine,
    /// The host. Its selected CPUs are the ones on which the guest's vCPUs ran.
    pub host: &'a AuditMachine,
    /// The guest's vCPUs on the host.
    pub vcpus: &'a [VcpuPlace],
}

/// CPUs of the host on which a vCPU ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuPlace {
    /// Number of the vCPU's CPU in the guest.
    pub cpu: u32,
    /// Id of the vCPU's thread on the host.
    pub tid: u32,
    /// CPUs of the host on which the vCPU ran, ascending.
    pub cpus: Vec<u32>,
}

impl Audit {
    /// Checks these rules about pairs. `evidence` has the time that the host took from the guest.
    pub fn joint(rules: Vec<AuditRule>, pair: AuditedPair<'_>, evidence: &NoiseEvidence) -> Audit {
        Audit::by(
            rules,
            |rule| look_at(&rule.look, pair, evidence),
            // For pairs, remedies contain no write and no command.
            |rule, bad| Change {
                now: None,
                command: None,
                ..rule.change(bad, pair.host)
            },
            Some(evidence),
        )
    }
}

/// Finds the vCPUs for which all conditions hold. Returns these vCPUs, and the CPUs of the host on
/// which they ran.
fn look_at(
    at: &FactSource,
    pair: AuditedPair<'_>,
    evidence: &NoiseEvidence,
) -> (Seen, Option<Vec<u32>>) {
    let (mut all, mut denied, mut cpus) = (Vec::new(), None, Vec::new());
    for vcpu in pair.vcpus {
        match look_at_vcpu(at, pair, vcpu, evidence) {
            Seen::Good | Seen::Absent => {}
            Seen::Denied(path) => denied = denied.or(Some(path)),
            Seen::Bad(places) => {
                cpus.extend(&vcpu.cpus);
                for place in places {
                    if !all.contains(&place) {
                        all.push(place);
                    }
                }
            }
        }
    }
    let seen = match (all.is_empty(), denied) {
        (false, _) => Seen::Bad(all),
        (true, Some(path)) => Seen::Denied(path),
        (true, None) => Seen::Good,
    };
    (seen, Some(cpus))
}

fn look_at_vcpu(
    at: &FactSource,
    pair: AuditedPair<'_>,
    vcpu: &VcpuPlace,
    evidence: &NoiseEvidence,
) -> Seen {
    let FactSource::Joint {
        guest,
        host,
        moved,
        seen,
    } = at
    else {
        return Seen::Absent;
    };
    let guest_machine = pair.guest.clone().about(&[vcpu.cpu]);
    let host_machine = pair.host.clone().about(&vcpu.cpus);
    let (mut bad, mut denied) = (Vec::new(), None);
    let guest = guest.iter().map(|it| (VmSide::Guest, &guest_machine, it));
    let host = host.iter().map(|it| (VmSide::Host, &host_machine, it));
    for (side, machine, condition) in guest.chain(host) {
        match (look::look_at(&condition.look, &[], machine), condition.is) {
            (Seen::Denied(path), _) => denied = denied.or(Some(on(side, &path))),
            (Seen::Good, Is::Good) => bad.extend(good(side, machine, condition)),
            (Seen::Bad(places), Is::Bad) => bad.extend(places.into_iter().map(|place| Bad {
                path: on(side, &place.path),
                ..place
            })),
            (Seen::Good | Seen::Bad(_) | Seen::Absent, _) => return Seen::Good,
        }
    }
    if *moved {
        if vcpu.cpus.len() < 2 {
            return Seen::Good;
        }
        bad.push(mover(vcpu));
    }
    if !seen.is_empty() {
        let places = of_evidence(seen, evidence, &vcpu.cpus);
        if places.is_empty() {
            return Seen::Good;
        }
        bad.extend(places);
    }
    match denied {
        Some(path) => Seen::Denied(path),
        None => Seen::Bad(bad),
    }
}

/// Returns the path with the name of its machine in front.
fn on(side: VmSide, path: &str) -> String {
    let side = match side {
        VmSide::Guest => "guest",
        VmSide::Host => "host",
        VmSide::Unknown => "either",
    };
    format!("{side}:/{path}")
}

/// Returns the file whose setting satisfies a condition that requires a good value.
fn good(side: VmSide, machine: &AuditMachine, condition: &SideCondition) -> Option<Bad> {
    let (path, found) = match &condition.look {
        FactSource::Value { file, .. }
        | FactSource::Choice { file, .. }
        | FactSource::Number { file, .. }
        | FactSource::Covers { file }
        | FactSource::Spares { file, .. } => match machine.read(file) {
            FileText::Text(text) => (&**file, text),
            FileText::Absent | FileText::Denied => return None,
        },
        FactSource::Parameter { words, file } => (&**file, words.join(" ")),
        _ => return None,
    };
    Some(Bad {
        path: on(side, path),
        instance: String::new(),
        name: String::new(),
        found,
    })
}

fn mover(vcpu: &VcpuPlace) -> Bad {
    let cpus: Vec<String> = vcpu.cpus.iter().map(u32::to_string).collect();
    Bad {
        path: "host:seen".into(),
        instance: vcpu.tid.to_string(),
        name: format!("thread {}, CPU {} of the guest", vcpu.tid, vcpu.cpu),
        found: format!("on CPU {}", cpus.join(",")),
    }
}

/// Returns the largest culprits that match these signatures.
fn of_evidence(seen: &[Signature], evidence: &NoiseEvidence, cpus: &[u32]) -> Vec<Bad> {
    let nowhere = Bad {
        path: "host:seen".into(),
        instance: String::new(),
        name: String::new(),
        found: String::new(),
    };
    let places = std::slice::from_ref(&nowhere);
    let explained = evidence.explained(seen, places, Some(cpus), &mut Vec::new());
    let who = explained.who.into_iter().take(3);
    who.map(|(share, name, ns)| Bad {
        name: format!("{share} {name}"),
        found: format!("{ns} ns"),
        ..nowhere.clone()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::finding::FindingVerdict;
    use crate::rule::FileTree;
    use crate::rules::joint;

    /// Audits a guest and a host with four CPUs each. CPUs 2 and 3 are selected.
    fn audit(tree: &FileTree, rule: &AuditRule) -> Audit {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for side in ["guest", "host"] {
            write(&format!("{side}/sys/devices/system/cpu/online"), "0-3\n");
        }
        tree.iter().for_each(|(path, text)| write(path, text));
        let machine = |side: &str| AuditMachine::under(root.path().join(side), &[2, 3]).unwrap();
        let has_moved = tree.contains_key("host/moved");
        let vcpus = [VcpuPlace {
            cpu: 2,
            tid: 87,
            cpus: if has_moved { vec![2, 3] } else { vec![2] },
        }];
        let seen = tree.iter().filter_map(|(path, name)| {
            let share = serde_json::from_value(path.strip_prefix("seen/")?.into()).unwrap();
            Some((share, &**name))
        });
        let pair = AuditedPair {
            guest: &machine("guest"),
            host: &machine("host"),
            vcpus: &vcpus,
        };
        Audit::joint(vec![rule.clone()], pair, &NoiseEvidence::of_names(seen))
    }

    #[test]
    fn each_rule_finds_a_pair_that_is_bad_and_none_where_all_is_well() {
        for rule in joint().unwrap() {
            let good = audit(&rule.trees.good, &rule);
            assert_eq!(good.good.concat(), rule.id, "{good:?}");
            let bad = audit(&rule.trees.bad, &rule);
            let [finding] = &bad.findings[..] else {
                panic!("{}: {bad:?}", rule.id);
            };
            assert_eq!(finding.verdict, FindingVerdict::CouldMatter);
            assert!(!finding.bad.is_empty());
            for (bad, change) in finding.bad.iter().zip(&finding.changes) {
                let side = bad.path.split(':').next().unwrap();
                assert!(["guest", "host"].contains(&side), "{bad:?}");
                let words: Vec<&String> = change.reboot.iter().chain(&change.advice).collect();
                assert!(words.iter().all(|it| !it.contains('{')), "{change:?}");
            }
        }
    }

    #[test]
    fn each_rule_explains_those_it_lets_in_and_nobody_else() {
        let cases = [
            ("guest-clock-exits", "kvm", "io", "kvm", "hlt"),
            (
                "guest-polls-shared-cpu",
                "preempted",
                "stress:7",
                "throttled",
                "stress:7",
            ),
            (
                "guest-polls-shared-cpu",
                "preempted",
                "stress:7",
                "preempted",
                "rcuc/3:30",
            ),
            (
                "guest-tickless-host-ticks",
                "host_irq",
                "local_timer:236",
                "host_irq",
                "eth0:24",
            ),
            (
                "isolated-guest-cpu-moves",
                "preempted",
                "stress:7",
                "preempted",
                "migration/3:9",
            ),
            (
                "isolated-guest-cpu-shared",
                "preempted",
                "stress:7",
                "preempted",
                "",
            ),
        ];
        for rule in joint().unwrap() {
            let of_rule = cases.iter().filter(|it| it.0 == rule.id);
            assert_eq!(
                of_rule.clone().count() == 0,
                rule.explains.is_empty(),
                "{}",
                rule.id
            );
            for (_, share, meant, other_share, other) in of_rule {
                let explained = |seen: &[(&str, &str)]| {
                    let mut tree = rule.trees.bad.clone();
                    tree.extend(
                        seen.iter()
                            .map(|(share, name)| (format!("seen/{share}"), (*name).to_owned())),
                    );
                    audit(&tree, &rule).findings[0].explained_ns()
                };
                // In this evidence, each culprit took one nanosecond.
                assert_eq!(explained(&[(share, meant)]), 1, "{}: {meant}", rule.id);
                assert_eq!(
                    explained(&[(other_share, other)]),
                    0,
                    "{}: {other}",
                    rule.id
                );
            }
        }
    }

    /// If the files of both machines are missing, there is no finding.
    #[test]
    fn what_neither_has_is_no_finding() {
        for rule in joint().unwrap() {
            let none = audit(&FileTree::new(), &rule);
            assert!(none.findings.is_empty(), "{}: {none:?}", rule.id);
        }
    }

    #[test]
    fn what_cannot_be_read_on_one_side_is_told_with_the_side() {
        let rules = joint().unwrap();
        let rule = rules.iter().find(|it| it.id == "isolated-guest-cpu-shared");
        let rule = rule.unwrap();
        let mut settings = vmnoise_events::Settings::default();
        let online = "sys/devices/system/cpu/online";
        settings.insert(online, Some("0-3")).unwrap();
        let host = AuditMachine::recorded(settings.clone(), &[2]).unwrap();
        let isolated = "sys/devices/system/cpu/isolated";
        settings.insert(isolated, Some("2")).unwrap();
        let guest = AuditMachine::recorded(settings, &[2]).unwrap();
        let pair = AuditedPair {
            guest: &guest,
            host: &host,
            vcpus: &[VcpuPlace {
                cpu: 2,
                tid: 87,
                cpus: vec![2],
            }],
        };
        let none = NoiseEvidence::of_names([].into_iter());
        let audit = Audit::joint(vec![rule.clone()], pair, &none);
        assert_eq!(
            audit.findings[0].verdict,
            FindingVerdict::CannotBeRead("host:/sys/devices/system/cpu/isolated".into())
        );
    }
}
