//! Lost time of each VM so far, from the counters of its vCPUs. The sums contain only final time
//! (`VcpuBooks::final_until_ns`). So they never decrease, and never exceed the elapsed time. Pure:
//! no BPF.

use std::collections::BTreeMap;

use vmnoise_events::{Name, VmIdentity};
use vmnoise_tracer::{GateSlot, VcpuBooks, VcpuThreadState, WaitCulprit, WaitLengths};

use crate::culprits::Culprits;
use crate::labels;
use crate::who::Who;

/// Lost time of a VM's vCPUs in ns, by cause. If two vCPUs lose time at once, both losses are
/// counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) preempted: u64,
    pub(crate) throttled: u64,
    pub(crate) idle: u64,
    pub(crate) unsure: u64,
    pub(crate) blocked: u64,
    pub(crate) unseen: u64,
}

impl Lost {
    /// Returns the lost time that is final at `mono_ns` (CLOCK_MONOTONIC in ns). `books` must have
    /// been read after `mono_ns`.
    fn of(books: &VcpuBooks, mono_ns: u64) -> Lost {
        let quiet = books.throttled_ns + books.idle_ns + books.unsure_ns;
        Lost {
            preempted: books
                .spent_ns(VcpuThreadState::Waiting)
                .saturating_sub(quiet),
            throttled: books.throttled_ns,
            idle: books.idle_ns,
            unsure: books.unsure_ns,
            blocked: books.spent_until_ns(VcpuThreadState::Blocked, mono_ns),
            unseen: books.spent_until_ns(VcpuThreadState::Unseen, mono_ns),
        }
    }

    /// Returns the lost time that was added since `earlier`.
    pub(crate) fn since(&self, earlier: &Lost) -> Lost {
        Lost {
            preempted: self.preempted.saturating_sub(earlier.preempted),
            throttled: self.throttled.saturating_sub(earlier.throttled),
            idle: self.idle.saturating_sub(earlier.idle),
            unsure: self.unsure.saturating_sub(earlier.unsure),
            blocked: self.blocked.saturating_sub(earlier.blocked),
            unseen: self.unseen.saturating_sub(earlier.unseen),
        }
    }

    pub(crate) fn add(&mut self, more: &Lost) {
        self.preempted += more.preempted;
        self.throttled += more.throttled;
        self.idle += more.idle;
        self.unsure += more.unsure;
        self.blocked += more.blocked;
        self.unseen += more.unseen;
    }

    /// Returns the lost time in ns of each cause, with the name of the cause in the metrics.
    pub(crate) fn shares(&self) -> [(&'static str, u64); 6] {
        [
            ("preempted", self.preempted),
            ("throttled", self.throttled),
            ("idle", self.idle),
            ("unsure", self.unsure),
            ("blocked", self.blocked),
            ("unseen", self.unseen),
        ]
    }
}

/// Sums of a VM since this process found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VmTotals {
    /// Name of the VM in the metrics.
    pub(crate) label: Name,
    pub(crate) identity: VmIdentity,
    pub(crate) lost: Lost,
    /// Time for which the vCPUs had a CPU, in ns, summed over all vCPUs.
    pub(crate) ran_ns: u64,
    /// Time for which the vCPUs slept because the guest asked for it (HLT), in ns.
    pub(crate) halted_ns: u64,
    /// Time for which the vCPUs slept in the VMM or for an unknown reason, in ns.
    pub(crate) asleep_ns: u64,
    /// Number of finished waits, by length.
    pub(crate) waits: WaitLengths,
    /// Total length of the waits in `waits`, in ns.
    pub(crate) waited_ns: u64,
    /// The preempted time, by the tasks that had a CPU while a vCPU waited for it.
    pub(crate) culprits: Culprits,
    /// Begin of the current wait of each waiting vCPU, CLOCK_MONOTONIC in ns.
    waiting_since: BTreeMap<GateSlot, u64>,
    vcpus: BTreeMap<GateSlot, Books>,
    /// Whether vCPUs are exported one by one. `numbers` then holds the labels of the vCPUs that
    /// have their own series.
    by_vcpu: bool,
    numbers: BTreeMap<GateSlot, Name>,
}

/// Values of the series with one set of labels. The values are those of a VM or of a vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told<'a> {
    /// Label of the vCPU; `None` if vCPUs are not exported one by one.
    pub(crate) vcpu: Option<&'a str>,
    pub(crate) lost: Lost,
    /// Time in ns in each state that does not count as lost, with the name of the state.
    pub(crate) states: [(&'static str, u64); 3],
    /// Time for which the longest current wait has lasted, in ns; 0 if no vCPU waits.
    pub(crate) waiting_ns: u64,
}

/// Counters of a vCPU at the last poll.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Books {
    lost: Lost,
    ran_ns: u64,
    halted_ns: u64,
    asleep_ns: u64,
    waited_ns: u64,
    waits: WaitLengths,
    culprits: Vec<WaitCulprit>,
}

impl Books {
    fn of(books: &VcpuBooks, mono_ns: u64) -> Books {
        let spent = |state| books.spent_until_ns(state, mono_ns);
        Books {
            lost: Lost::of(books, mono_ns),
            ran_ns: spent(VcpuThreadState::Running),
            halted_ns: spent(VcpuThreadState::Halted),
            asleep_ns: spent(VcpuThreadState::InVmm) + spent(VcpuThreadState::Asleep),
            waited_ns: books.spent_ns(VcpuThreadState::Waiting),
            waits: books.waits,
            culprits: books.culprits.clone(),
        }
    }

    fn none() -> Books {
        Books {
            lost: Lost::default(),
            ran_ns: 0,
            halted_ns: 0,
            asleep_ns: 0,
            waited_ns: 0,
            waits: WaitLengths::none(),
            culprits: Vec::new(),
        }
    }

    /// Replaces each sum that is smaller than in `before` by its value in `before`. A sum may fall
    /// by some nanoseconds, because the clocks of BPF and of user space differ.
    fn no_less_than(mut self, before: &Books) -> Books {
        self.lost.add(&before.lost.since(&self.lost));
        self.ran_ns = self.ran_ns.max(before.ran_ns);
        self.halted_ns = self.halted_ns.max(before.halted_ns);
        self.asleep_ns = self.asleep_ns.max(before.asleep_ns);
        self
    }

    /// Returns the time of this culprit in these counters, in ns. Returns 0 if this time exceeds
    /// the time of `culprit`: the gate then dropped the culprit and counts its time from 0 again.
    fn had(&self, culprit: &WaitCulprit) -> u64 {
        let known = self.culprits.iter().find(|known| known.is(culprit));
        let had = known.map_or(0, |known| known.ns);
        if had > culprit.ns { 0 } else { had }
    }
}

fn states(ran_ns: u64, halted_ns: u64, asleep_ns: u64) -> [(&'static str, u64); 3] {
    [
        ("running", ran_ns),
        ("halted", halted_ns),
        ("asleep", asleep_ns),
    ]
}

impl VmTotals {
    /// Returns empty sums. `by_vcpu`: whether vCPUs are exported one by one.
    pub(crate) fn new(label: Name, identity: VmIdentity, by_vcpu: bool) -> VmTotals {
        VmTotals {
            label,
            identity,
            lost: Lost::default(),
            ran_ns: 0,
            halted_ns: 0,
            asleep_ns: 0,
            waits: WaitLengths::none(),
            waited_ns: 0,
            culprits: Culprits::default(),
            waiting_since: BTreeMap::new(),
            vcpus: BTreeMap::new(),
            by_vcpu,
            numbers: BTreeMap::new(),
        }
    }

    /// Gives this vCPU its own series until it ends. The label is `number`. If another vCPU already
    /// has that label, a suffix is added.
    pub(crate) fn tell_of(&mut self, place: GateSlot, number: &Name, tid: u32) {
        let is_taken = |name: &Name| self.numbers.values().any(|known| known == name);
        let number = labels::choose(number, tid, is_taken);
        self.numbers.insert(place, number);
    }

    /// Returns the number of vCPUs that have their own series.
    pub(crate) fn told_of(&self) -> usize {
        self.numbers.len()
    }

    /// Returns one entry for each vCPU with its own series. A further entry with the label `other`
    /// covers the remaining and the ended vCPUs. If vCPUs are not exported one by one, returns one
    /// entry for the whole VM.
    pub(crate) fn told(&self, now_mono_ns: u64) -> Vec<Told<'_>> {
        let mut rest = Told {
            vcpu: None,
            lost: self.lost,
            states: states(self.ran_ns, self.halted_ns, self.asleep_ns),
            waiting_ns: self.longest_wait_ns(now_mono_ns),
        };
        let mut told = Vec::new();
        for (place, number) in &self.numbers {
            let Some(books) = self.vcpus.get(place) else {
                continue;
            };
            let since = self.waiting_since.get(place);
            let of_vcpu = Told {
                vcpu: Some(number.as_str()),
                lost: books.lost,
                states: states(books.ran_ns, books.halted_ns, books.asleep_ns),
                waiting_ns: since.map_or(0, |since| now_mono_ns.saturating_sub(*since)),
            };
            rest.lost = rest.lost.since(&of_vcpu.lost);
            for ((_, rest), (_, ns)) in rest.states.iter_mut().zip(of_vcpu.states) {
                *rest = rest.saturating_sub(ns);
            }
            told.push(of_vcpu);
        }
        if self.by_vcpu {
            let others = self.waiting_since.iter();
            let others = others.filter(|(place, _)| !self.numbers.contains_key(place));
            let since = others.map(|(_, since)| *since).min();
            rest.waiting_ns = since.map_or(0, |since| now_mono_ns.saturating_sub(since));
            rest.vcpu = Some("other");
        }
        let sums = rest.states.iter().map(|(_, ns)| ns).sum::<u64>();
        if !self.by_vcpu || sums > 0 || rest.lost != Lost::default() {
            told.push(rest);
        }
        told
    }

    /// Adds the time of one vCPU that is final at `mono_ns` (CLOCK_MONOTONIC in ns). `books` must
    /// have been read after `mono_ns`. `who` converts a culprit of the gate. A current wait adds
    /// nothing yet.
    pub(crate) fn take_in(
        &mut self,
        place: GateSlot,
        books: &VcpuBooks,
        mono_ns: u64,
        who: impl Fn(&WaitCulprit) -> Who,
    ) {
        let before = self.vcpus.remove(&place).unwrap_or_else(Books::none);
        let now = Books::of(books, mono_ns).no_less_than(&before);
        let lost = now.lost.since(&before.lost);
        self.lost.add(&lost);
        self.ran_ns += now.ran_ns - before.ran_ns;
        self.halted_ns += now.halted_ns - before.halted_ns;
        self.asleep_ns += now.asleep_ns - before.asleep_ns;
        self.waited_ns += now.waited_ns.saturating_sub(before.waited_ns);
        self.waits.add(&now.waits.since(&before.waits));
        let known = now.culprits.iter();
        let known = known.map(|culprit| (who(culprit), culprit.ns - before.had(culprit)));
        self.culprits.add(lost.preempted, known);
        match books.state {
            VcpuThreadState::Waiting => {
                let since = books.since_mono_ns.saturating_sub(books.waited_ns);
                _ = self.waiting_since.insert(place, since);
            }
            _ => _ = self.waiting_since.remove(&place),
        }
        self.vcpus.insert(place, now);
    }

    /// Removes a vCPU that has ended. Its time stays in the sums of the VM.
    pub(crate) fn forget(&mut self, place: GateSlot) {
        self.vcpus.remove(&place);
        self.waiting_since.remove(&place);
        self.numbers.remove(&place);
    }

    /// Returns the number of vCPUs that have not ended.
    pub(crate) fn vcpus(&self) -> usize {
        self.vcpus.len()
    }

    /// Returns the length in ns of the longest current wait for a CPU; 0 if no vCPU waits.
    pub(crate) fn longest_wait_ns(&self, now_mono_ns: u64) -> u64 {
        let since = self.waiting_since.values().min();
        since.map_or(0, |since| now_mono_ns.saturating_sub(*since))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ledger_law::begun;
    use crate::who::Kind;

    pub(crate) const PLACE: GateSlot = GateSlot(1);

    fn culprit(number: u64, ns: u64) -> WaitCulprit {
        WaitCulprit {
            name: format!("task-{number}").into(),
            cgroup: 1,
            vcpu: None,
            is_own: false,
            ns,
            comm: [number, 0],
        }
    }

    pub(crate) fn who(culprit: &WaitCulprit) -> Who {
        Who {
            kind: Kind::Foreign,
            name: culprit.name.clone(),
            cgroup: None,
        }
    }

    fn blamed(vm: &VmTotals) -> Vec<(String, u64)> {
        let named = vm.culprits.named();
        named.map(|(who, ns)| (who.name.to_string(), ns)).collect()
    }

    /// Returns the lost time by cause, followed by the time in each other state, in ns.
    fn sums(vm: &VmTotals) -> Vec<u64> {
        let lost = vm.lost.shares().map(|(_, ns)| ns);
        [&lost[..], &[vm.ran_ns, vm.halted_ns, vm.asleep_ns]].concat()
    }

    /// Adds the time in the current state until `mono_ns`, and switches to a random state. If the
    /// current state is a wait, its cause is random too.
    pub(crate) fn changes(books: &mut VcpuBooks, mono_ns: u64, random: &mut fastrand::Rng) {
        let ns = mono_ns - books.since_mono_ns;
        books.spent_ns[books.state as usize] += ns;
        books.since_mono_ns = mono_ns;
        if books.state == VcpuThreadState::Waiting {
            match random.u8(0..5) {
                0 => books.idle_ns += ns,
                1 => books.throttled_ns += ns,
                2 => books.unsure_ns += ns,
                3 => books.unnamed_ns += ns,
                _ => is_blamed(books, random.u64(0..8), ns),
            }
        }
        books.state = VcpuThreadState::ALL[random.usize(0..VcpuThreadState::ALL.len())];
    }

    /// Adds time to a culprit as the gate does: if no slot is free, the first culprit is dropped.
    fn is_blamed(books: &mut VcpuBooks, number: u64, ns: u64) {
        let mut known = books.culprits.iter_mut();
        if let Some(known) = known.find(|it| it.comm[0] == number) {
            known.ns += ns;
            return;
        }
        if books.culprits.len() == 3 {
            books.unnamed_ns += books.culprits.remove(0).ns;
        }
        books.culprits.push(culprit(number, ns));
    }

    #[test]
    fn each_nanosecond_is_in_one_sum_and_no_sum_shrinks() {
        let mut random = fastrand::Rng::with_seed(18);
        let mut vm = VmTotals::new("web".into(), VmIdentity::default(), false);
        let mut now = 1_000;
        let mut books = begun(now);
        let mut before = sums(&vm);
        for _ in 0..5_000 {
            for _ in 0..random.u8(0..4) {
                now += random.u64(0..1_000);
                changes(&mut books, now, &mut random);
            }
            now += random.u64(0..1_000);
            vm.take_in(PLACE, &books, now, who);
            let sums = sums(&vm);
            // Time that is not in any sum yet.
            let goes_on = now - books.final_until_ns(now);
            let ended = books.spent_ns(VcpuThreadState::Ended);
            assert_eq!(sums.iter().sum::<u64>() + goes_on + ended, now - 1_000);
            assert!(sums.iter().zip(&before).all(|(now, before)| now >= before));
            let told: u64 = blamed(&vm).iter().map(|(_, ns)| ns).sum();
            assert_eq!(told + vm.culprits.others_ns(), vm.lost.preempted);
            assert_eq!(vm.waited_ns, books.spent_ns(VcpuThreadState::Waiting));
            before = sums;
        }
    }

    #[test]
    fn what_is_told_of_vcpus_adds_up_and_what_ended_stays_with_the_rest() {
        let mut vm = VmTotals::new("web".into(), VmIdentity::default(), true);
        vm.tell_of(GateSlot(1), &"0".into(), 7);
        let mut books = begun(0);
        for (place, ran_ns) in [(1, 100), (2, 30)] {
            books.spent_ns[VcpuThreadState::Running as usize] = ran_ns;
            books.spent_ns[VcpuThreadState::Blocked as usize] = ran_ns / 10;
            books.state = VcpuThreadState::Waiting;
            books.since_mono_ns = 500 + ran_ns;
            vm.take_in(GateSlot(place), &books, 900, who);
        }
        let told = |vm: &VmTotals| {
            let told = vm.told(1_000).into_iter();
            let told = told.map(|it| {
                let vcpu = it.vcpu.map(str::to_owned);
                (vcpu, it.states[0].1, it.lost.blocked, it.waiting_ns)
            });
            told.collect::<Vec<_>>()
        };
        let [zero, other] = ["0", "other"].map(|it| Some(it.to_owned()));
        let both = [(zero.clone(), 100, 10, 400), (other.clone(), 30, 3, 470)];
        assert_eq!(told(&vm), both);
        vm.forget(GateSlot(1));
        assert_eq!(told(&vm), [(other.clone(), 130, 13, 470)]);
        // Another vCPU with the same number appears.
        vm.tell_of(GateSlot(3), &"0".into(), 8);
        vm.take_in(GateSlot(3), &begun(950), 1_000, who);
        assert_eq!(told(&vm), [(zero, 0, 0, 0), (other, 130, 13, 470)]);
    }

    #[test]
    fn each_state_is_told_under_its_own_name() {
        let mut books = begun(0);
        books.spent_ns = [1, 2, 300, 4, 5, 6, 7, 0];
        (books.idle_ns, books.throttled_ns, books.unsure_ns) = (10, 20, 30);
        let mut vm = VmTotals::new("web".into(), VmIdentity::default(), false);
        vm.take_in(PLACE, &books, 0, who);
        let shares = [
            ("preempted", 240),
            ("throttled", 20),
            ("idle", 10),
            ("unsure", 30),
            ("blocked", 5),
            ("unseen", 1),
        ];
        assert_eq!(vm.lost.shares(), shares);
        assert_eq!((vm.ran_ns, vm.halted_ns, vm.asleep_ns), (2, 4, 6 + 7));
    }

    #[test]
    fn a_culprit_that_lost_his_name_and_came_again_is_told_of_all_that_he_had_since() {
        let mut vm = VmTotals::new("web".into(), VmIdentity::default(), false);
        let mut books = begun(0);
        let mut look = |preempted_ns, ns| {
            books.spent_ns[VcpuThreadState::Waiting as usize] = preempted_ns;
            books.culprits = vec![culprit(1, ns)];
            vm.take_in(PLACE, &books, 0, who);
            (blamed(&vm)[0].1, vm.culprits.others_ns())
        };
        assert_eq!(look(100, 100), (100, 0));
        // The culprit had 70 ns more: 50 ns before the gate dropped it, and 20 ns afterwards.
        assert_eq!(look(170, 20), (120, 50));
    }

    #[test]
    fn who_waits_longest_has_waited_since_before_it_was_moved() {
        let mut vm = VmTotals::new("web".into(), VmIdentity::default(), false);
        let mut books = begun(0);
        books.state = VcpuThreadState::Waiting;
        (books.since_mono_ns, books.waited_ns) = (500, 100);
        vm.take_in(GateSlot(1), &books, 600, who);
        (books.since_mono_ns, books.waited_ns) = (450, 0);
        vm.take_in(GateSlot(2), &books, 600, who);
        assert_eq!(vm.longest_wait_ns(700), 300);
        books.state = VcpuThreadState::Running;
        vm.take_in(GateSlot(1), &books, 800, who);
        assert_eq!(vm.longest_wait_ns(800), 350);
        vm.forget(GateSlot(2));
        assert_eq!((vm.longest_wait_ns(800), vm.vcpus()), (0, 1));
    }

    #[test]
    fn who_gets_the_place_of_another_adds_to_what_that_one_did() {
        let mut vm = VmTotals::new("web".into(), VmIdentity::default(), false);
        let mut books = begun(0);
        books.spent_ns[VcpuThreadState::Running as usize] = 100;
        vm.take_in(PLACE, &books, 0, who);
        vm.forget(PLACE);
        books.spent_ns[VcpuThreadState::Running as usize] = 30;
        vm.take_in(PLACE, &books, 0, who);
        assert_eq!((vm.ran_ns, vm.vcpus()), (130, 1));
    }
}
