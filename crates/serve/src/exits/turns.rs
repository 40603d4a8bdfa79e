//! Chooses which VM to record in one second in N. The VMs take turns. Pure.

#[derive(Debug)]
pub(super) struct Turns {
    every_ns: u64,
    next_ns: Option<u64>,
    /// Process id of the VM that had the last turn.
    last: u32,
}

impl Turns {
    /// Begins with one turn in each `seconds`.
    pub(super) fn new(seconds: u32) -> Turns {
        Turns {
            every_ns: u64::from(seconds) * 1_000_000_000,
            next_ns: None,
            last: 0,
        }
    }

    /// Returns the VM whose turn begins now; `None` if no turn begins now. `vms` are the process
    /// ids of all VMs in ascending order. `now_ns` is CLOCK_MONOTONIC in ns.
    pub(super) fn take(&mut self, now_ns: u64, vms: impl Iterator<Item = u32>) -> Option<u32> {
        let next_ns = *self.next_ns.get_or_insert(now_ns + self.every_ns);
        if now_ns < next_ns {
            return None;
        }
        let mut first = None;
        let mut vms = vms.inspect(|vm| first = first.or(Some(*vm)));
        let after = vms.find(|vm| *vm > self.last);
        self.last = after.or(first)?;
        // Turns that were missed are skipped.
        self.next_ns = Some(next_ns.max(now_ns - self.every_ns / 2) + self.every_ns);
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn each_vm_has_its_turn_and_none_before_its_time() {
        let mut turns = Turns::new(10);
        let mut taken = Vec::new();
        // The function is called once a second, some ms late.
        for second in 0..60 {
            let vms = [5, 7, 30];
            let vm = turns.take(second * S + second * 1_000_000, vms.into_iter());
            taken.extend(vm.map(|vm| (second, vm)));
        }
        let expected = [(10, 5), (20, 7), (30, 30), (40, 5), (50, 7)];
        assert_eq!(taken, expected);
    }

    #[test]
    fn one_that_came_or_went_changes_nothing_for_the_others() {
        let mut turns = Turns::new(2);
        let mut take = |second, vms: &[u32]| turns.take(second * S, vms.iter().copied());
        assert_eq!(take(0, &[5, 7]), None);
        assert_eq!(take(2, &[]), None);
        assert_eq!(take(3, &[5, 7]), Some(5));
        assert_eq!(take(5, &[7, 8]), Some(7));
        assert_eq!(take(7, &[5, 7, 8]), Some(8));
        // After a long pause there is one turn, and not ten turns in a row.
        assert_eq!(take(60, &[5, 7, 8]), Some(5));
        assert_eq!(take(60, &[5, 7, 8]), None);
    }
}
