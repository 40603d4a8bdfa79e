//! Time that was taken from this machine's own CPUs, if this machine is a guest.

use std::collections::BTreeMap;

use vmnoise_events::Name;
use vmnoise_tracer::{OwnCpuBooks, TakenOfKind, TraceError};

use crate::say::say;

/// Largest number of CPUs with their own series. A family of metrics has at most 2000 series, and
/// each CPU has one series for each share.
const TOLD_CPUS: usize = 2_000 / SHARES;
/// Number of shares: steal, irq, softirq.
const SHARES: usize = 3;

/// The programs that count losses, and the values that were last read from their counters.
#[derive(Debug)]
pub(crate) struct OwnCpus {
    programs: vmnoise_tracer::OwnCpus,
    books: BTreeMap<u32, OwnCpuBooks>,
    missed: u64,
}

/// Time that was taken, under one set of labels, in ns by share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// Label of the CPU; `None` if CPUs are not exported one by one.
    pub(crate) cpu: Option<Name>,
    pub(crate) shares: [(&'static str, u64); SHARES],
}

impl OwnCpus {
    /// Loads and attaches the programs. Returns `None` if this machine is not a guest, or if this
    /// fails. An error is only logged, because vCPUs can be counted without these programs.
    pub(crate) fn begin() -> Option<OwnCpus> {
        let began = || -> anyhow::Result<Option<OwnCpus>> {
            let Some(mut programs) = vmnoise_tracer::OwnCpus::load()? else {
                return Ok(None);
            };
            programs.attach()?;
            Ok(Some(OwnCpus {
                programs,
                books: BTreeMap::new(),
                missed: 0,
            }))
        };
        began().unwrap_or_else(|error| {
            say(&format!(
                "time taken from this machine's own CPUs is not exported: {error:#}"
            ));
            None
        })
    }

    /// Detaches the programs.
    pub(crate) fn pause(&mut self) {
        self.programs.pause();
    }

    /// Attaches the programs again.
    ///
    /// # Errors
    /// If a program cannot be attached.
    pub(crate) fn attach(&mut self) -> Result<(), TraceError> {
        self.programs.attach()
    }

    /// Reads the counters of all CPUs.
    pub(crate) fn take_in(&mut self) {
        for cpu in self.programs.cpus() {
            if let Some(books) = self.programs.books(cpu) {
                self.books.insert(cpu, books);
            }
        }
        // A counter that cannot be read keeps its last value.
        self.missed = self.programs.missed().unwrap_or(self.missed);
    }

    /// Returns one entry for each CPU with its own series, and one entry with the label `other` for
    /// the remaining CPUs. If CPUs are not exported one by one, returns one entry for all CPUs.
    pub(crate) fn told(&self, by_cpu: bool) -> Vec<Told> {
        told(&self.books, by_cpu)
    }

    /// Returns the sum of the losses of all CPUs.
    pub(crate) fn all(&self) -> OwnCpuBooks {
        sum(self.books.values())
    }

    /// Returns the number of events that the programs missed.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the CPU time of the programs, in ns.
    pub(crate) fn probe_ns(&self) -> u64 {
        self.programs.probe_ns()
    }
}

fn told(books: &BTreeMap<u32, OwnCpuBooks>, by_cpu: bool) -> Vec<Told> {
    let by_itself = if by_cpu { TOLD_CPUS - 1 } else { 0 };
    let each = books.iter().take(by_itself);
    let each = each.map(|(cpu, books)| told_of(Some(cpu.to_string().into()), books));
    let rest = (!by_cpu || books.len() > by_itself).then(|| {
        let cpu = by_cpu.then(|| "other".into());
        told_of(cpu, &sum(books.values().skip(by_itself)))
    });
    each.chain(rest).collect()
}

fn told_of(cpu: Option<Name>, books: &OwnCpuBooks) -> Told {
    let shares = [
        ("steal", books.steal.ns),
        ("irq", books.irq.ns),
        ("softirq", books.softirq.ns),
    ];
    Told { cpu, shares }
}

fn sum<'a>(books: impl Iterator<Item = &'a OwnCpuBooks>) -> OwnCpuBooks {
    let nothing = OwnCpuBooks {
        steal: TakenOfKind::none(),
        irq: TakenOfKind::none(),
        softirq: TakenOfKind::none(),
        waits: None,
    };
    books.fold(nothing, |mut all, books| {
        all.steal.add(&books.steal);
        all.irq.add(&books.irq);
        all.softirq.add(&books.softirq);
        if let Some(waits) = &books.waits {
            all.waits.get_or_insert_with(TakenOfKind::none).add(waits);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use vmnoise_tracer::WaitLengths;

    use super::*;

    fn taken(ns: &[u64]) -> TakenOfKind {
        TakenOfKind {
            ns: ns.iter().sum(),
            lengths: WaitLengths::from_iter(ns.iter().copied()),
        }
    }

    fn books(steal_ns: u64) -> OwnCpuBooks {
        OwnCpuBooks {
            steal: taken(&[steal_ns]),
            irq: taken(&[10, 20]),
            softirq: taken(&[5]),
            waits: None,
        }
    }

    #[test]
    fn each_cpu_is_told_once_and_those_without_room_together() {
        let few: BTreeMap<u32, OwnCpuBooks> = (0..2).map(|cpu| (cpu, books(7))).collect();
        let all = told(&few, false);
        let shares = [("steal", 14), ("irq", 60), ("softirq", 10)];
        assert_eq!(all, [Told { cpu: None, shares }]);
        assert_eq!(told(&few, true).len(), 2);
        assert_eq!(told(&few, true)[1].cpu, Some("1".into()));

        let many: BTreeMap<u32, OwnCpuBooks> = (0..1_000).map(|cpu| (cpu, books(7))).collect();
        let told = told(&many, true);
        assert!(told.len() * SHARES <= 2_000, "{}", told.len());
        assert_eq!(told[told.len() - 1].cpu, Some("other".into()));
        let steal = told.iter().map(|told| told.shares[0].1);
        assert_eq!(steal.sum::<u64>(), 7_000);
    }

    #[test]
    fn single_ones_of_all_cpus_are_counted_together() {
        let mut one = books(100_000);
        one.waits = Some(taken(&[1, 2]));
        let all = sum([&one, &books(7)].into_iter());
        assert_eq!(all.steal, taken(&[100_000, 7]));
        assert_eq!(all.irq, taken(&[10, 20, 10, 20]));
        assert_eq!(all.waits, Some(taken(&[1, 2])));
        assert_eq!(sum([&books(7)].into_iter()).waits, None);
    }
}
