use std::collections::BTreeSet;

use vmnoise_events::VmIdentity;
use vmnoise_export::VmHour;
use vmnoise_tracer::WaitLengths;

use super::*;
use crate::ledger::Lost;
use crate::who::{Kind, Who};

const NOTHING: Itself = Itself {
    missed_events: 0,
    vcpus_without_room: 0,
    self_cpu_ns: 0,
    probe_ns: 0,
};

fn at(utc: &str, mono_s: u64) -> Instant {
    let utc = utc.parse();
    Instant {
        utc: utc.unwrap_or_else(|error| panic!("{error}")),
        mono_ns: mono_s * 1_000_000_000,
    }
}

fn is_whole(begin: Instant, end: Instant) -> bool {
    let period = Period::begin(begin, NOTHING, [].iter());
    period.end(end, NOTHING, [].iter()).is_whole
}

#[test]
fn an_hour_is_whole_from_its_begin_to_its_end() {
    let begin = at("2026-11-25T13:00:00.7Z", 100);
    assert!(is_whole(begin, at("2026-11-25T14:00:00.9Z", 3_700)));
    for (why, begin, end) in [
        (
            "it began late",
            at("2026-11-25T13:20:00Z", 100),
            at("2026-11-25T14:00:00Z", 2_500),
        ),
        ("it ended early", begin, at("2026-11-25T13:59:59Z", 3_698)),
        (
            "its clock was set by an hour",
            begin,
            at("2026-11-25T14:00:01Z", 103),
        ),
        (
            "its clock was set by a minute",
            begin,
            at("2026-11-25T14:00:01Z", 3_640),
        ),
        (
            "it was asleep for an hour",
            begin,
            at("2026-11-25T15:00:01Z", 3_701),
        ),
    ] {
        assert!(!is_whole(begin, end), "{why}");
    }
}

#[test]
fn it_is_over_when_the_clock_shows_another_hour_wherever_that_is() {
    let period = Period::begin(at("2026-11-25T13:20:00Z", 100), NOTHING, [].iter());
    let over = |utc| period.is_over(at(utc, 0).utc);
    assert!(!over("2026-11-25T13:59:59.999Z") && !over("2026-11-25T13:00:00Z"));
    assert!(over("2026-11-25T14:00:00Z") && over("2026-11-25T12:59:59Z"));
}

#[test]
fn vms_for_which_no_name_is_left_are_told_of_together() {
    let begin = at("2026-11-25T13:20:00Z", 100);
    let mut period = Period::begin(begin, NOTHING, [].iter());
    for number in 0..ENDED + 2 {
        let mut vm = VmTotals::new(format!("vm-{number}").into(), VmIdentity::default(), false);
        vm.ran_ns = 7;
        period.vm_ended(&vm);
        period.vm_ended(&vm);
    }
    let hour = period.end(begin, NOTHING, [].iter());
    let ran = |vm: &VmHour| (vm.vm.is_some(), vm.running_ns);
    let ran: Vec<(bool, u64)> = hour.vms.iter().map(ran).collect();
    assert_eq!(ran[0], (false, 2 * 14));
    assert_eq!(ran[1..], [(true, 14); ENDED]);
}

/// All counted values by VM. The inner key is a state, a share, a length of waits or a culprit.
type Booked = BTreeMap<String, BTreeMap<String, u64>>;

/// A simulated host on which VMs appear, work and end. `booked` has independent sums.
struct World {
    random: fastrand::Rng,
    vms: Vec<VmTotals>,
    booked: Booked,
}

impl World {
    fn number(&mut self) -> u64 {
        self.random.u64(0..1_000)
    }

    fn come(&mut self) {
        let label = Name::from(format!("vm-{}", self.random.u8(0..6)));
        if self.vms.iter().all(|vm| vm.label != label) {
            self.vms
                .push(VmTotals::new(label, VmIdentity::default(), false));
        }
    }

    fn end(&mut self, period: &mut Period) {
        let at = self.random.usize(0..=self.vms.len());
        if at < self.vms.len() {
            period.vm_ended(&self.vms.swap_remove(at));
        }
    }

    fn work(&mut self) {
        for at in 0..self.vms.len() {
            let [
                preempted,
                throttled,
                idle,
                unsure,
                blocked,
                unseen,
                ran,
                halted,
                asleep,
            ] = std::array::from_fn(|_| self.number());
            let lost = Lost {
                preempted,
                throttled,
                idle,
                unsure,
                blocked,
                unseen,
            };
            // Some of 40 culprits get a part of the time. Culprits thus lose their series and get
            // them again.
            let mut left = preempted;
            let culprits: Vec<(Who, u64)> = (0..self.random.u8(0..5))
                .map(|_| {
                    let ns = self.random.u64(0..=left);
                    left -= ns;
                    let name = format!("task-{}", self.random.u8(0..40)).into();
                    let kind = Kind::Foreign;
                    (
                        Who {
                            kind,
                            name,
                            cgroup: None,
                        },
                        ns,
                    )
                })
                .collect();
            let wait_ns = 1_000 << self.random.u8(0..40);
            let vm = &mut self.vms[at];
            vm.lost.add(&lost);
            vm.ran_ns += ran;
            vm.halted_ns += halted;
            vm.asleep_ns += asleep;
            vm.culprits.add(preempted, culprits.clone());
            let waits = WaitLengths::from_iter([wait_ns]);
            vm.waits.add(&waits);
            let booked = self.booked.entry(vm.label.as_str().to_owned()).or_default();
            let mut book = |what: String, ns| *booked.entry(what).or_insert(0) += ns;
            for (share, ns) in lost.shares() {
                book(share.to_owned(), ns);
            }
            for (state, ns) in [("running", ran), ("halted", halted), ("asleep", asleep)] {
                book(state.to_owned(), ns);
            }
            for (who, ns) in culprits {
                book(who.name.as_str().to_owned(), ns);
            }
            for (bound, count) in waits.by_bound() {
                book(format!("{bound:?}"), count);
            }
        }
    }
}

/// Adds the figures of one summary to `told`.
fn add_hour(told: &mut Booked, hour: &HostHour) {
    for vm in &hour.vms {
        let of_vm = told.entry(vm.vm.clone().unwrap_or_default()).or_default();
        let mut tell = |what: String, ns| *of_vm.entry(what).or_insert(0) += ns;
        for (what, ns) in [
            ("preempted", vm.preempted_ns),
            ("throttled", vm.throttled_ns),
            ("idle", vm.idle_ns),
            ("unsure", vm.unsure_ns),
            ("blocked", vm.blocked_ns),
            ("unseen", vm.unseen_ns),
            ("running", vm.running_ns),
            ("halted", vm.halted_ns),
            ("asleep", vm.asleep_ns),
        ] {
            tell(what.to_owned(), ns);
        }
        let mut by_culprits = 0;
        for culprit in &vm.culprits {
            by_culprits += culprit.ns;
            tell(culprit.name.clone(), culprit.ns);
        }
        assert_eq!(by_culprits, vm.preempted_ns, "{vm:?}");
        for wait in &vm.waits {
            tell(format!("{:?}", wait.up_to_ns), wait.waits);
        }
    }
}

#[test]
fn the_sums_of_all_periods_are_the_books_whoever_comes_and_ends() {
    for seed in 0..50 {
        let mut world = World {
            random: fastrand::Rng::with_seed(seed),
            vms: Vec::new(),
            booked: Booked::new(),
        };
        let (mut told, mut length_ns, mut now) = (Booked::new(), 0, at("2026-11-25T13:20:00Z", 5));
        let first = now;
        let mut period = Period::begin(now, NOTHING, [].iter());
        for _ in 0..300 {
            now.utc += jiff::SignedDuration::from_mins(1);
            now.mono_ns += 60_000_000_000;
            match world.random.u8(0..4) {
                0 => world.come(),
                1 => world.end(&mut period),
                _ => world.work(),
            }
            if period.is_over(now.utc) {
                let next = Period::begin(now, NOTHING, world.vms.iter());
                let over = std::mem::replace(&mut period, next);
                let hour = over.end(now, NOTHING, world.vms.iter());
                length_ns += hour.period_ns;
                add_hour(&mut told, &hour);
            }
        }
        let last = period.end(now, NOTHING, world.vms.iter());
        add_hour(&mut told, &last);
        assert_eq!(length_ns + last.period_ns, now.mono_ns - first.mono_ns);

        let is_culprit = |what: &str| what == "other" || what.starts_with("task-");
        for (vm, booked) in &world.booked {
            let told = &told[vm];
            let sums = |of: &BTreeMap<String, u64>| {
                let sums = of.iter().filter(|(what, ns)| !is_culprit(what) && **ns > 0);
                sums.map(|(what, ns)| (what.clone(), *ns))
                    .collect::<BTreeMap<_, _>>()
            };
            assert_eq!(sums(told), sums(booked), "{vm} of seed {seed}");
            // No culprit has more time in the summaries than in the independent sums.
            for (culprit, ns) in told.iter().filter(|(what, _)| what.starts_with("task-")) {
                assert!(*ns <= booked[culprit], "{culprit}");
            }
        }
        let names: BTreeSet<&String> = told.keys().collect();
        let known: BTreeSet<&String> = world.booked.keys().collect();
        assert!(names.is_superset(&known));
    }
}
