//! Time that was told once is never taken back, whichever events the gate misses.

use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{Handlers, Happens, PIECES, Who};
use crate::gate::VcpuBooks;
use crate::gate::state::VcpuState;

const SLEEPS: [VcpuState; 4] = [
    VcpuState::Halted,
    VcpuState::Blocked,
    VcpuState::InVmm,
    VcpuState::Asleep,
];
const PLACE: u32 = 1;
const VCPU: Who = Who::Vcpu(PLACE);

/// What happens next to the only vCPU: whether a walk is made first, whether the gate misses what comes then, which
/// way it goes, and how long it takes.
type Step = (bool, bool, u8, u64);

fn step(most_missed: u8) -> impl Strategy<Value = Step> {
    let missed = (0_u8..10).prop_map(move |it| it < most_missed);
    (any::<bool>(), missed, any::<u8>(), 1_u64..1_000)
}

/// What the vCPU's thread does then, and the event of it.
fn next(state: VcpuState, way: u8, now: u64) -> (VcpuState, Happens) {
    let switch = |prev, state, next| Happens::Switch {
        cpu: 0,
        now,
        prev,
        state,
        throttled: false,
        throttles: 0,
        next,
    };
    match state {
        VcpuState::Running => {
            let sleep = SLEEPS.get(usize::from(way % 6)).copied();
            let state = sleep.unwrap_or(VcpuState::Waiting);
            (state, switch(VCPU, state, Who::Idle))
        }
        VcpuState::Waiting => (
            VcpuState::Running,
            switch(Who::Idle, VcpuState::Unseen, VCPU),
        ),
        _ => {
            let wakes = Happens::Wakes {
                cpu: 0,
                now,
                vcpu: PLACE,
                throttled: false,
            };
            (VcpuState::Waiting, wakes)
        }
    }
}

/// What is told of each state at this instant. Of waiting that is what is over.
fn told(books: &VcpuBooks, now: u64) -> [u64; 8] {
    VcpuState::ALL.map(|state| books.spent_until_ns(state, now))
}

/// Runs a life, and holds what is told after each walk against what was told before, and against the time that
/// has passed. Returns how long the vCPU truly was in each state, and what is told in the end.
fn live(handlers: &Handlers, steps: &[Step]) -> ([u64; 8], [u64; 8]) {
    const FIRST: u64 = 1_000;
    let mut now = FIRST;
    let mut state = VcpuState::Running;
    let mut truth = [0; 8];
    handlers.reset();
    handlers.happen(&[Happens::Begins {
        now,
        vcpu: PLACE,
        tgid: 1,
        id: 1,
        has_cpu: true,
    }]);
    let mut before = [0; 8];
    let walk = |now, state| {
        let has_cpu = state == VcpuState::Running;
        handlers.happen(&[Happens::Confirms {
            now,
            vcpu: PLACE,
            has_cpu,
            is_ready: has_cpu || state == VcpuState::Waiting,
        }]);
        let told = told(&handlers.books(PLACE), now);
        assert!(
            told.iter().sum::<u64>() <= now - FIRST,
            "more time than there was"
        );
        told
    };
    let mut hold = |told: [u64; 8]| {
        let falls = before.iter().zip(&told).any(|(before, now)| now < before);
        assert!(!falls, "{before:?} was told, and is {told:?}");
        before = told;
    };
    for (walks, is_missed, way, length) in steps {
        now += length;
        truth[state as usize] += length;
        if *walks {
            hold(walk(now, state));
            now += 1;
            truth[state as usize] += 1;
        }
        let (becomes, event) = next(state, *way, now);
        match (is_missed, state) {
            (false, _) => _ = handlers.happen(&[event]),
            (true, VcpuState::Running) => {
                handlers.happen(&[Happens::LeavesUnseen { vcpu: PLACE }]);
            }
            (true, _) => {}
        }
        state = becomes;
    }
    now += 1;
    truth[state as usize] += 1;
    let last = walk(now, state);
    hold(last);
    (truth, last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_missed_no_sum_falls(steps in vec(step(3), 1..60)) {
        thread_local!(static HANDLERS: Handlers = Handlers::new(PIECES));
        HANDLERS.with(|handlers| live(handlers, &steps));
    }

    /// Where nothing is missed, all is told at the next walk, but for a wait that goes on.
    #[test]
    fn what_goes_on_is_told_at_each_walk(steps in vec(step(0), 1..60)) {
        thread_local!(static HANDLERS: Handlers = Handlers::new(PIECES));
        HANDLERS.with(|handlers| {
            let (truth, told) = live(handlers, &steps);
            for state in VcpuState::ALL.into_iter().filter(|it| *it != VcpuState::Waiting) {
                assert_eq!(told[state as usize], truth[state as usize], "{state:?}");
            }
            assert!(told[VcpuState::Waiting as usize] <= truth[VcpuState::Waiting as usize]);
        });
    }
}

/// As the gate met it on kernels that hide every departure of one process's threads.
#[test]
fn a_departure_that_was_missed_takes_nothing_back_and_counts_no_time_twice() {
    const S: u64 = 1_000_000_000;
    let handlers = Handlers::new(PIECES);
    let confirms = |now, has_cpu| Happens::Confirms {
        now,
        vcpu: PLACE,
        has_cpu,
        is_ready: has_cpu,
    };
    handlers.happen(&[
        Happens::Begins {
            now: 100 * S,
            vcpu: PLACE,
            tgid: 1,
            id: 1,
            has_cpu: true,
        },
        confirms(101 * S, true),
        // It leaves at 130 s, and comes back at 140 s: one sees it have the CPU as before.
        Happens::LeavesUnseen { vcpu: PLACE },
        confirms(160 * S, true),
    ]);
    let running = |now| {
        handlers
            .books(PLACE)
            .spent_until_ns(VcpuState::Running, now)
    };
    assert_eq!(running(160 * S), S, "what is known");
    let (_, comes) = next(VcpuState::Waiting, 0, 161 * S);
    handlers.happen(&[comes, confirms(162 * S, true)]);
    let books = handlers.books(PLACE);
    assert_eq!(
        told(&books, 162 * S)[..2],
        [60 * S, 2 * S],
        "unseen and running"
    );
    assert!(books.balance(), "{books:?}");
}
