//! Finds reasons for a dump other than a single long wait: quota, steal and pressure in the last
//! ten seconds. Pure: the caller passes the time and the sums once a second. Sums never decrease.

use std::collections::{BTreeMap, VecDeque};

use vmnoise_events::Name;
use vmnoise_serve_arguments::{DumpLimit, Sign};

/// Length of the window that is compared with the limits, in ns.
const WINDOW_NS: u64 = 10_000_000_000;
/// Longest window in ns that still counts as ten seconds. If two samples are farther apart, they
/// are not compared.
const LONGEST_NS: u64 = 13_000_000_000;

/// Sums of all VMs, all CPUs and the machine at one instant, in ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) mono_ns: u64,
    pub(crate) vms: BTreeMap<Name, VmSums>,
    /// Time that the hypervisor below this machine took from each CPU.
    pub(crate) steal: BTreeMap<u32, u64>,
    /// Time in which at least one task waited for a CPU; `None` if the kernel does not measure it.
    pub(crate) pressure: Option<u64>,
}

/// Sums of a VM's vCPUs, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VmSums {
    pub(crate) throttled: u64,
    pub(crate) waited: u64,
    pub(crate) all: u64,
}

impl VmSums {
    /// Returns the increase since `earlier`; `None` if the sums have restarted.
    fn since(self, earlier: VmSums) -> Option<VmSums> {
        Some(VmSums {
            throttled: self.throttled.checked_sub(earlier.throttled)?,
            waited: self.waited.checked_sub(earlier.waited)?,
            all: self.all.checked_sub(earlier.all)?,
        })
    }
}

/// A subject that exceeded its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) sign: Sign,
    /// The VM's name or the CPU's number; empty if the finding applies to the whole machine.
    subject: String,
    /// VM that was hit most; `None` if the finding names no VM.
    pub(crate) vm: Option<Name>,
    /// Description of the finding for users.
    pub(crate) words: String,
}

impl Finding {
    fn is_same(&self, other: &Finding) -> bool {
        self.sign == other.sign && self.subject == other.subject
    }
}

/// Compares the increase of the sums with the limits at each poll.
#[derive(Debug)]
pub(crate) struct Signs {
    limits: Vec<DumpLimit>,
    looks: VecDeque<Sums>,
    /// Findings whose limit was exceeded at the last poll.
    over: Vec<Finding>,
    /// Findings that appeared since the last dump.
    new: Vec<Finding>,
}

impl Signs {
    pub(crate) fn new(limits: &[DumpLimit]) -> Signs {
        Signs {
            limits: limits.to_owned(),
            looks: VecDeque::new(),
            over: Vec::new(),
            new: Vec::new(),
        }
    }

    pub(crate) fn limits(&self) -> &[DumpLimit] {
        &self.limits
    }

    /// Compares the sums of now with earlier sums. If a subject stays over its limit, only one
    /// finding is made.
    pub(crate) fn look(&mut self, now: Sums) {
        let is_ten_seconds_old = |look: &Sums| look.mono_ns + WINDOW_NS <= now.mono_ns;
        while self.looks.get(1).is_some_and(is_ten_seconds_old) {
            self.looks.pop_front();
        }
        let before = self.looks.front().filter(|look| {
            let length_ns = now.mono_ns.saturating_sub(look.mono_ns);
            (WINDOW_NS..LONGEST_NS).contains(&length_ns)
        });
        if let Some(before) = before {
            let found = self.limits.iter();
            let over: Vec<_> = found.flat_map(|it| findings(*it, before, &now)).collect();
            for finding in &over {
                let is_known = |known: &Finding| known.is_same(finding);
                if !self.over.iter().chain(&self.new).any(is_known) {
                    self.new.push(finding.clone());
                }
            }
            self.over = over;
        }
        self.looks.push_back(now);
    }

    /// Returns whether there is a new finding, which is a reason for a dump.
    pub(crate) fn is_any_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// Removes and returns the new findings. The caller writes a dump that names them.
    pub(crate) fn take(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.new)
    }
}

fn findings(limit: DumpLimit, before: &Sums, now: &Sums) -> Vec<Finding> {
    let wall_ns = now.mono_ns - before.mono_ns;
    let over = |part_ns: u64, of_ns: u64| {
        let percent = part_ns as f64 * 100.0 / of_ns as f64;
        (percent > limit.percent)
            .then(|| format!("{percent:.1} % of ten seconds within the last minute"))
    };
    let vms = now.vms.iter().filter_map(|(vm, sums)| {
        let since = sums.since(*before.vms.get(vm)?)?;
        Some((vm, since))
    });
    let finding = |subject: String, vm: Option<Name>, words: String| Finding {
        sign: limit.sign,
        subject,
        vm,
        words,
    };
    match limit.sign {
        Sign::Quota => {
            let mut held: Vec<_> = vms.filter(|(_, since)| since.throttled > 0).collect();
            held.sort_by_key(|(_, since)| std::cmp::Reverse(since.throttled));
            let found = held.into_iter().filter_map(|(vm, since)| {
                let words = over(since.throttled, since.all)?;
                let words = format!("quota: it throttled the vCPUs of {vm} for {words}");
                Some(finding(vm.to_string(), Some(vm.clone()), words))
            });
            found.collect()
        }
        Sign::Steal => {
            let found = now.steal.iter().filter_map(|(cpu, steal)| {
                let since = steal.saturating_sub(*before.steal.get(cpu)?);
                let words = over(since, wall_ns)?;
                let words = format!("steal: the hypervisor below had CPU {cpu} for {words}");
                Some(finding(cpu.to_string(), None, words))
            });
            found.collect()
        }
        Sign::Pressure => {
            let sums = now.pressure.zip(before.pressure);
            let since = sums.map_or(0, |(now, before)| now.saturating_sub(before));
            let worst = vms.filter(|(_, since)| since.waited > 0);
            let worst = worst.max_by_key(|(_, since)| since.waited);
            let found = over(since, wall_ns).map(|words| {
                let words = format!("pressure: tasks waited for a CPU in {words}");
                finding(String::new(), worst.map(|(vm, _)| vm.clone()), words)
            });
            found.into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn signs(limit: &str) -> Signs {
        Signs::new(&[limit.parse().unwrap()])
    }

    fn vm(throttled: u64, waited: u64, all: u64) -> VmSums {
        VmSums {
            throttled,
            waited,
            all,
        }
    }

    /// Returns each new finding, with the second at which it was made.
    fn told(signs: &mut Signs, looks: impl IntoIterator<Item = Sums>) -> Vec<(u64, Finding)> {
        let mut told = Vec::new();
        for sums in looks {
            let at = sums.mono_ns / S;
            signs.look(sums);
            told.extend(signs.take().into_iter().map(|finding| (at, finding)));
        }
        told
    }

    fn pressure(second: u64, ns: u64) -> Sums {
        Sums {
            mono_ns: second * S,
            pressure: Some(ns),
            ..Sums::default()
        }
    }

    #[test]
    fn pressure_is_told_when_ten_seconds_have_more_of_it_and_once_while_it_goes_on() {
        // The pressure is 0 for 20 s, 40 % for 30 s, 0 for 20 s, and 40 % again.
        let mut ns = 0;
        let looks = (0..90).map(|second| {
            let is_busy = (20..50).contains(&second) || second >= 70;
            ns += u64::from(is_busy) * S * 4 / 10;
            pressure(second, ns)
        });
        let told = told(&mut signs("pressure=10"), looks);
        // Three seconds at 40 % are the first to exceed 10 % of ten seconds.
        let at: Vec<u64> = told.iter().map(|(at, _)| *at).collect();
        assert_eq!(at, [22, 72]);
        assert_eq!(
            told[0].1.words,
            "pressure: tasks waited for a CPU in 12.0 % of ten seconds within the last minute"
        );
    }

    #[test]
    fn what_is_not_over_its_limit_is_told_never() {
        let looks = (0..60).map(|second| pressure(second, second * S / 10));
        assert_eq!(told(&mut signs("pressure=10"), looks), []);
    }

    #[test]
    fn looks_that_were_far_apart_tell_nothing() {
        let looks = [(0, 0), (1, 0), (40, 39), (41, 40), (52, 40)];
        let looks = looks.map(|(second, busy)| pressure(second, busy * S));
        assert_eq!(told(&mut signs("pressure=10"), looks), []);
    }

    #[test]
    fn a_quota_is_told_of_the_vm_that_it_holds_back_and_of_no_other() {
        let mut signs = signs("quota=5");
        let looks = (0..12).map(|second| {
            let vms = [
                // `web` (two vCPUs) was throttled during 6 % of its time, and `db` during 4 %.
                // `mail` waited most, but was not throttled.
                ("web", vm(second * S * 12 / 100, 0, second * 2 * S)),
                ("db", vm(second * S * 8 / 100, 0, second * 2 * S)),
                ("mail", vm(0, second * S, second * S)),
            ];
            Sums {
                mono_ns: second * S,
                vms: vms.map(|(name, sums)| (name.into(), sums)).into(),
                ..Sums::default()
            }
        });
        let told = told(&mut signs, looks);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].0, &told[0].1.vm), (10, &Some("web".into())));
    }

    #[test]
    fn a_vm_that_begins_anew_is_told_of_after_ten_seconds_of_its_own() {
        let mut signs = signs("quota=5");
        let looks = (0..22).map(|second| {
            let (all, throttled) = match second {
                0..10 => (second, second),
                _ => (second - 10, 0),
            };
            Sums {
                mono_ns: second * S,
                vms: [("web".into(), vm(throttled * S, 0, all * S))].into(),
                ..Sums::default()
            }
        });
        assert_eq!(told(&mut signs, looks), []);
    }

    #[test]
    fn steal_is_told_by_cpu_and_pressure_names_the_vm_that_waited_most() {
        let limits = ["steal=1", "pressure=1"].map(|limit| limit.parse().unwrap());
        let mut signs = Signs::new(&limits);
        let looks = (0..11).map(|second| Sums {
            mono_ns: second * S,
            vms: [
                ("web".into(), vm(0, second, second * S)),
                ("db".into(), vm(0, second * 5, second * S)),
            ]
            .into(),
            steal: [(0, 0), (3, second * S / 20)].into(),
            pressure: Some(second * S),
        });
        let told = told(&mut signs, looks);
        let words: Vec<_> = told.iter().map(|(_, it)| it.words.as_str()).collect();
        let expected = [
            "steal: the hypervisor below had CPU 3 for 5.0 % of ten seconds within the last minute",
            "pressure: tasks waited for a CPU in 100.0 % of ten seconds within the last minute",
        ];
        assert_eq!(words, expected);
        assert_eq!((&told[0].1.vm, &told[1].1.vm), (&None, &Some("db".into())));
    }
}
