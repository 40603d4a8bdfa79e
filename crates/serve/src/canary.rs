//! Decides whether a dump is due because a vCPU waited too long. Pure.

use std::collections::BTreeMap;

use vmnoise_events::Name;

use crate::ledger::VmTotals;

/// Shortest time between two dumps, in ns. Events between two dumps are in the later dump.
pub(crate) const APART_NS: u64 = 60_000_000_000;

/// Compares the waits of all VMs with the limit at each poll.
#[derive(Debug)]
pub(crate) struct Canary {
    limit_ns: u64,
    /// Number of waits longer than the limit of each VM at the last poll.
    longer: BTreeMap<Name, u64>,
    /// VMs with a wait longer than the limit since the last dump.
    hit: Vec<Name>,
    last_dump_ns: Option<u64>,
}

impl Canary {
    /// Creates the check. Waits longer than `limit_ns` are too long. `limit_ns` must be one of the
    /// histogram's bounds.
    pub(crate) fn new(limit_ns: u64) -> Canary {
        Canary {
            limit_ns,
            longer: BTreeMap::new(),
            hit: Vec::new(),
            last_dump_ns: None,
        }
    }

    /// Returns the VMs for which a dump is due now. The caller makes one dump for all of them.
    pub(crate) fn look<'a>(
        &mut self,
        vms: impl Iterator<Item = &'a VmTotals>,
        now_mono_ns: u64,
    ) -> Vec<Name> {
        let mut longer = BTreeMap::new();
        for vm in vms {
            let count = vm.waits.count() - vm.waits.up_to(self.limit_ns);
            let before = self.longer.get(&vm.label).copied().unwrap_or(0);
            if count > before && !self.hit.contains(&vm.label) {
                self.hit.push(vm.label.clone());
            }
            longer.insert(vm.label.clone(), count);
        }
        self.longer = longer;
        let is_early = self.is_early(now_mono_ns);
        if self.hit.is_empty() || is_early {
            return Vec::new();
        }
        self.last_dump_ns = Some(now_mono_ns);
        std::mem::take(&mut self.hit)
    }

    /// Returns whether a dump for another reason is allowed now. If so, counts this dump as made
    /// now.
    pub(crate) fn may_dump(&mut self, now_mono_ns: u64) -> bool {
        let is_early = self.is_early(now_mono_ns);
        if !is_early {
            self.last_dump_ns = Some(now_mono_ns);
        }
        !is_early
    }

    fn is_early(&self, now_mono_ns: u64) -> bool {
        let last = self.last_dump_ns;
        last.is_some_and(|last| now_mono_ns < last + APART_NS)
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::VmIdentity;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn vm(name: &str, waits_ns: &[u64]) -> VmTotals {
        let mut vm = VmTotals::new(name.into(), VmIdentity::default(), false);
        vm.waits = waits_ns.iter().copied().collect();
        vm
    }

    #[test]
    fn a_wait_that_is_too_long_is_one_dump_and_not_more() {
        let mut canary = Canary::new(100_000_000);
        let look = |canary: &mut Canary, at_s, web: &[u64]| {
            let vms = [vm("web", web), vm("db", &[5_000, 100_000_000])];
            canary.look(vms.iter(), at_s * S)
        };
        assert!(look(&mut canary, 1, &[100_000_000]).is_empty());
        assert_eq!(look(&mut canary, 2, &[100_000_001]), ["web"]);
        assert!(look(&mut canary, 3, &[100_000_001]).is_empty());
        // A second long wait within a minute causes a dump after this minute.
        assert!(look(&mut canary, 4, &[100_000_001, S]).is_empty());
        assert!(look(&mut canary, 61, &[100_000_001, S]).is_empty());
        assert_eq!(look(&mut canary, 62, &[100_000_001, S]), ["web"]);
        assert!(look(&mut canary, 200, &[100_000_001, S]).is_empty());
    }

    #[test]
    fn one_dump_a_minute_is_for_all_reasons_together() {
        let mut canary = Canary::new(1_000_000);
        assert!(canary.may_dump(S));
        assert!(!canary.may_dump(60 * S));
        assert!(canary.look([vm("web", &[S])].iter(), 60 * S).is_empty());
        assert_eq!(canary.look([vm("web", &[S])].iter(), 61 * S), ["web"]);
        assert!(!canary.may_dump(120 * S));
        assert!(canary.may_dump(121 * S));
    }

    #[test]
    fn a_vm_that_begins_anew_begins_at_none() {
        let mut canary = Canary::new(1_000_000);
        assert_eq!(canary.look([vm("web", &[S, S])].iter(), S), ["web"]);
        assert!(canary.look([vm("web", &[S])].iter(), 100 * S).is_empty());
        assert_eq!(canary.look([vm("web", &[S, S])].iter(), 200 * S), ["web"]);
    }
}
