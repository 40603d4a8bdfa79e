//! Tests that exported times never decrease and never exceed the true times, whichever events the
//! gate misses.

use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{Handlers, Happens, PIECES, Who};
use crate::gate::VcpuBooks;
use crate::gate::state::VcpuThreadState;

const SLEEPS: [VcpuThreadState; 4] = [
    VcpuThreadState::Halted,
    VcpuThreadState::Blocked,
    VcpuThreadState::InVmm,
    VcpuThreadState::Asleep,
];
const PLACE: u32 = 1;
const VCPU: Who = Who::Vcpu(PLACE);

/// One step in the life of the only vCPU. It consists of: whether a walk comes before the event,
/// whether the gate misses the event, a number that selects the event, and the time in ns since the
/// previous event.
type Step = (bool, bool, u8, u64);

fn step(most_missed: u8) -> impl Strategy<Value = Step> {
    let missed = (0_u8..10).prop_map(move |chance| chance < most_missed);
    (any::<bool>(), missed, any::<u8>(), 1_u64..1_000)
}

/// Returns the next state of the vCPU's thread, and the event that leads to this state.
fn next(state: VcpuThreadState, way: u8, now: u64) -> (VcpuThreadState, Happens) {
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
        VcpuThreadState::Running => {
            let sleep = SLEEPS.get(usize::from(way % 6)).copied();
            let state = sleep.unwrap_or(VcpuThreadState::Waiting);
            (state, switch(VCPU, state, Who::Idle))
        }
        VcpuThreadState::Waiting => (
            VcpuThreadState::Running,
            switch(Who::Idle, VcpuThreadState::Unseen, VCPU),
        ),
        _ => {
            let wakes = Happens::Wakes {
                cpu: 0,
                now,
                vcpu: PLACE,
                throttled: false,
            };
            (VcpuThreadState::Waiting, wakes)
        }
    }
}

/// Returns the exported time in ns in each state. A current wait is not included.
fn exported(books: &VcpuBooks, now: u64) -> [u64; 8] {
    VcpuThreadState::ALL.map(|state| books.spent_until_ns(state, now))
}

/// Runs the steps. Asserts after each walk that no exported time decreased. Also asserts that the
/// sum of the exported times and the running time do not exceed the true times. Returns the true
/// and the exported time in each state at the end.
fn live(handlers: &Handlers, steps: &[Step]) -> ([u64; 8], [u64; 8]) {
    const FIRST: u64 = 1_000;
    let mut now = FIRST;
    let mut state = VcpuThreadState::Running;
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
    let walk = |now, state: VcpuThreadState| {
        let has_cpu = state == VcpuThreadState::Running;
        handlers.happen(&[Happens::Confirms {
            now,
            vcpu: PLACE,
            has_cpu,
            is_ready: has_cpu || state == VcpuThreadState::Waiting,
        }]);
        exported(&handlers.books(PLACE), now)
    };
    let mut hold = |exported: [u64; 8], truth: &[u64; 8]| {
        let falls = before
            .iter()
            .zip(&exported)
            .any(|(before, now)| now < before);
        assert!(!falls, "exported times fell: {before:?}, then {exported:?}");
        let all: u64 = exported.iter().sum();
        assert!(
            all <= truth.iter().sum(),
            "the exported times exceed the elapsed time"
        );
        let running = VcpuThreadState::Running as usize;
        assert!(exported[running] <= truth[running], "too much running time");
        before = exported;
    };
    for (walks, is_missed, way, length) in steps {
        now += length;
        truth[state as usize] += length;
        if *walks {
            hold(walk(now, state), &truth);
            now += 1;
            truth[state as usize] += 1;
        }
        let (becomes, event) = next(state, *way, now);
        match (is_missed, state) {
            (false, _) => _ = handlers.happen(&[event]),
            (true, VcpuThreadState::Running) => {
                handlers.happen(&[Happens::LeavesUnseen { vcpu: PLACE }]);
            }
            (true, _) => {}
        }
        state = becomes;
    }
    now += 1;
    truth[state as usize] += 1;
    let last = walk(now, state);
    hold(last, &truth);
    (truth, last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whichever_events_are_missed_no_exported_time_falls(steps in vec(step(3), 1..60)) {
        thread_local!(static HANDLERS: Handlers = Handlers::new(PIECES));
        HANDLERS.with(|handlers| live(handlers, &steps));
    }

    /// Each walk makes all time before it final, except for a current wait.
    #[test]
    fn each_walk_exports_the_time_of_the_current_state(steps in vec(step(0), 1..60)) {
        thread_local!(static HANDLERS: Handlers = Handlers::new(PIECES));
        HANDLERS.with(|handlers| {
            let (truth, exported) = live(handlers, &steps);
            for state in VcpuThreadState::ALL.into_iter().filter(|it| *it != VcpuThreadState::Waiting) {
                assert_eq!(exported[state as usize], truth[state as usize], "{state:?}");
            }
            assert!(exported[VcpuThreadState::Waiting as usize] <= truth[VcpuThreadState::Waiting as usize]);
        });
    }
}

/// On some kernels, no event fires when the threads of certain processes leave a CPU.
#[test]
fn a_missed_departure_takes_no_exported_time_back() {
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
        // The vCPU leaves at 130 s and comes back at 140 s, both without an event. The walk finds
        // the vCPU on the CPU as before.
        Happens::LeavesUnseen { vcpu: PLACE },
        confirms(160 * S, true),
    ]);
    let unseen_and_running = |now| {
        let exported = exported(&handlers.books(PLACE), now);
        [exported[0], exported[1]]
    };
    assert_eq!(unseen_and_running(160 * S), [59 * S, S]);
    let (_, comes) = next(VcpuThreadState::Waiting, 0, 161 * S);
    handlers.happen(&[comes, confirms(162 * S, true)]);
    let books = handlers.books(PLACE);
    assert_eq!(unseen_and_running(162 * S), [60 * S, 2 * S]);
    assert!(books.balance(), "{books:?}");
}

/// A vCPU that is alone on its CPU may run for hours without an event.
#[test]
fn a_vcpu_that_never_leaves_its_cpu_has_its_time_exported_at_each_walk() {
    const S: u64 = 1_000_000_000;
    let handlers = Handlers::new(PIECES);
    handlers.happen(&[
        // The vCPU's thread left a CPU before a walk found the vCPU.
        Happens::LeavesUnseen { vcpu: PLACE },
        Happens::Begins {
            now: 100 * S,
            vcpu: PLACE,
            tgid: 1,
            id: 1,
            has_cpu: true,
        },
    ]);
    for seconds in 1..=20 {
        let now = (100 + seconds) * S;
        handlers.happen(&[Happens::Confirms {
            now,
            vcpu: PLACE,
            has_cpu: true,
            is_ready: true,
        }]);
        let expected = [0, seconds * S, 0, 0, 0, 0, 0, 0];
        assert_eq!(exported(&handlers.books(PLACE), now), expected);
    }
}
