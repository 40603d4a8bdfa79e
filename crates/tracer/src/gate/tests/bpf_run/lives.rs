//! Event streams that are short enough to be checked by reading.

use super::harness::{Handlers, Happens, PIECES, Who, id, named};
use crate::gate::piece_kind::PieceKind;
use crate::gate::state::VcpuThreadState;

fn switch(now: u64, prev: Who, state: VcpuThreadState, next: Who) -> Happens {
    Happens::Switch {
        cpu: 0,
        now,
        prev,
        state,
        throttled: false,
        throttles: 0,
        next,
    }
}

const A: Who = Who::Task(b'a');
const B: Who = Who::Task(b'b');
const VCPU: Who = Who::Vcpu(1);
const OTHER: Who = Who::Vcpu(2);
const NAMESAKE: Who = Who::Namesake(2);

#[test]
fn who_had_the_cpu_while_a_vcpu_waited_is_named_turn_by_turn() {
    let handlers = Handlers::new(PIECES);
    handlers.happen(&[
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        switch(150, VCPU, VcpuThreadState::Waiting, A),
        switch(160, A, VcpuThreadState::Unseen, B),
        switch(190, B, VcpuThreadState::Unseen, A),
        switch(195, A, VcpuThreadState::Unseen, VCPU),
        switch(215, VCPU, VcpuThreadState::Halted, Who::Idle),
    ]);
    let books = handlers.books(1);
    assert_eq!(named(&books), [("a".to_owned(), 15), ("b".to_owned(), 30)]);
    assert_eq!(books.spent_ns(VcpuThreadState::Running), 70);
    assert_eq!(books.spent_ns(VcpuThreadState::Waiting), 45);
    assert_eq!(books.state, VcpuThreadState::Halted);
    assert_eq!((books.first_mono_ns, books.since_mono_ns), (100, 215));
    assert_eq!(books.waits.count(), 1);
    assert!(books.balance());
}

#[test]
fn a_vcpu_of_another_vm_is_told_from_a_task_of_its_name() {
    let handlers = Handlers::new(PIECES);
    handlers.happen(&[
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        switch(150, VCPU, VcpuThreadState::Waiting, OTHER),
        switch(180, OTHER, VcpuThreadState::Halted, NAMESAKE),
        switch(187, NAMESAKE, VcpuThreadState::Unseen, VCPU),
    ]);
    let books = handlers.books(1);
    let had: Vec<_> = books.culprits.iter().map(|it| (it.vcpu, it.ns)).collect();
    assert!(had.contains(&(Some(id(2)), 30)), "{books:?}");
    assert!(had.contains(&(None, 7)), "{books:?}");
}

#[test]
fn where_the_cpu_idles_nobody_is_blamed_and_a_throttle_is_one_only_if_it_was_seen() {
    for throttled in [false, true] {
        let handlers = Handlers::new(PIECES);
        let leaves = Happens::Switch {
            cpu: 0,
            now: 150,
            prev: VCPU,
            state: VcpuThreadState::Waiting,
            throttled,
            throttles: 0,
            next: Who::Idle,
        };
        handlers.happen(&[
            switch(100, A, VcpuThreadState::Unseen, VCPU),
            leaves,
            switch(180, Who::Idle, VcpuThreadState::Unseen, A),
            switch(185, A, VcpuThreadState::Unseen, VCPU),
        ]);
        let books = handlers.books(1);
        let parts = (books.idle_ns, books.throttled_ns, books.unsure_ns);
        match throttled {
            false => {
                assert_eq!(parts, (30, 0, 0));
                assert_eq!(named(&books), [("a".to_owned(), 5)]);
            }
            // It is unknown whether the vCPU could have run while `a` ran.
            true => {
                assert_eq!(parts, (0, 30, 5));
                assert!(books.culprits.is_empty());
            }
        }
    }
}

#[test]
fn events_that_were_missed_are_time_that_nobody_saw() {
    let handlers = Handlers::new(PIECES);
    handlers.happen(&[
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        // The vCPU left the CPU without an event.
        switch(200, A, VcpuThreadState::Unseen, VCPU),
        switch(230, VCPU, VcpuThreadState::Halted, Who::Idle),
        // The vCPU was woken and came to the CPU without events.
        switch(300, VCPU, VcpuThreadState::Waiting, A),
        // The vCPU came to the CPU without an event.
        switch(400, VCPU, VcpuThreadState::Halted, A),
        // The vCPU was woken without an event, so it is unknown since when it could have run.
        switch(460, A, VcpuThreadState::Unseen, VCPU),
        switch(470, VCPU, VcpuThreadState::Ended, A),
    ]);
    let books = handlers.books(1);
    assert_eq!(books.spent_ns(VcpuThreadState::Unseen), 100 + 70 + 100 + 60);
    assert_eq!(books.spent_ns(VcpuThreadState::Running), 30 + 10);
    assert_eq!(books.spent_ns(VcpuThreadState::Halted), 0);
    assert_eq!(books.state, VcpuThreadState::Ended);
    assert!(books.culprits.is_empty() && books.balance(), "{books:?}");
    assert!(handlers.waiting().iter().all(|waiting| *waiting == 0));
}

#[test]
fn whoever_has_no_room_among_the_names_is_in_the_rest() {
    let handlers = Handlers::new(PIECES);
    let mut events = vec![
        switch(0, A, VcpuThreadState::Unseen, VCPU),
        switch(10, VCPU, VcpuThreadState::Waiting, Who::Task(b'a')),
    ];
    // Task `a` has the CPU for 1 us, task `b` for 2 us, and so on up to task `l`.
    let mut now = 10;
    for (letter, us) in (b'a'..=b'l').zip(1..) {
        now += us * 1000;
        let next = match letter {
            b'l' => VCPU,
            _ => Who::Task(letter + 1),
        };
        events.push(switch(
            now,
            Who::Task(letter),
            VcpuThreadState::Unseen,
            next,
        ));
    }
    handlers.happen(&events);
    let books = handlers.books(1);
    assert!(books.balance(), "{books:?}");
    // Recent time has more weight. Tasks with too little time lost their names.
    let kept: Vec<String> = named(&books).into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept.len(), 8);
    assert!(kept.contains(&"l".to_owned()), "{kept:?}");
    assert!(books.unnamed_ns > 0);
}

#[test]
fn whoever_comes_late_and_in_turns_with_others_has_a_name_before_those_who_had_most_long_ago() {
    let handlers = Handlers::new(PIECES);
    // Task `a` has the CPU for 8 s, task `b` for 7 s, and so on down to task `h`. Each of them has
    // it once.
    let second = 1_000_000_000;
    let mut events = vec![
        switch(0, A, VcpuThreadState::Unseen, VCPU),
        switch(10, VCPU, VcpuThreadState::Waiting, Who::Task(b'a')),
    ];
    let mut now = 10;
    for (letter, seconds) in (b'a'..=b'h').zip((1..=8).rev()) {
        now += seconds * second;
        let next = match letter {
            b'h' => VCPU,
            _ => Who::Task(letter + 1),
        };
        events.push(switch(
            now,
            Who::Task(letter),
            VcpuThreadState::Unseen,
            next,
        ));
    }
    // One hour later, `i` and `j` begin to take the CPU from the vCPU, in turns of 1 ms. Each turn
    // is a separate wait.
    now += 3600 * second;
    for letter in [b'i', b'j'].into_iter().cycle().take(20) {
        events.push(switch(
            now,
            VCPU,
            VcpuThreadState::Waiting,
            Who::Task(letter),
        ));
        now += 1_000_000;
        events.push(switch(
            now,
            Who::Task(letter),
            VcpuThreadState::Unseen,
            VCPU,
        ));
    }
    handlers.happen(&events);
    let books = handlers.books(1);
    assert!(books.balance(), "{books:?}");
    let had = |who: &str| named(&books).into_iter().find(|(name, _)| name == who);
    let all = Some(10 * 1_000_000);
    assert_eq!(had("i").map(|(_, ns)| ns), all);
    assert_eq!(had("j").map(|(_, ns)| ns), all);
    // Two of the eight named tasks lost their names, and their time moved to the rest.
    assert_eq!(books.unnamed_ns, (1 + 2) * second);
}

#[test]
fn two_that_come_in_turns_where_one_place_is_left_both_get_one() {
    let handlers = Handlers::new(PIECES);
    // Tasks `a` to `h` have 1 ms each within one second. Then `i` and `j` have 0.1 ms each, in
    // turns.
    let mut events = vec![switch(0, A, VcpuThreadState::Unseen, VCPU)];
    let mut now = 10;
    let lengths = (b'a'..=b'h').map(|letter| (letter, 1_000_000));
    let turns = [(b'i', 100_000), (b'j', 100_000)];
    for (letter, ns) in lengths.chain(turns.into_iter().cycle().take(100)) {
        events.push(switch(
            now,
            VCPU,
            VcpuThreadState::Waiting,
            Who::Task(letter),
        ));
        now += ns;
        events.push(switch(
            now,
            Who::Task(letter),
            VcpuThreadState::Unseen,
            VCPU,
        ));
    }
    handlers.happen(&events);
    let books = handlers.books(1);
    assert!(books.balance(), "{books:?}");
    for who in ["i", "j"] {
        let had = named(&books).into_iter().find(|(name, _)| name == who);
        // Each of the two replaces one of the eight tasks at once, and then no longer replaces the
        // other.
        assert_eq!(had.map(|(_, ns)| ns), Some(5_000_000), "{who}");
    }
}

#[test]
fn a_quota_that_ran_out_meanwhile_lets_nobody_be_blamed() {
    let handlers = Handlers::new(PIECES);
    let comes = Happens::Switch {
        cpu: 0,
        now: 300,
        prev: A,
        state: VcpuThreadState::Unseen,
        throttled: false,
        // The vCPU's group was throttled during the wait, and is not throttled any more.
        throttles: 1,
        next: VCPU,
    };
    handlers.happen(&[
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        switch(150, VCPU, VcpuThreadState::Waiting, A),
        switch(200, A, VcpuThreadState::Unseen, Who::Idle),
        switch(250, Who::Idle, VcpuThreadState::Unseen, A),
        comes,
    ]);
    let books = handlers.books(1);
    assert_eq!(
        (books.unsure_ns, books.idle_ns, books.throttled_ns),
        (150, 0, 0)
    );
    assert!(books.culprits.is_empty() && books.balance(), "{books:?}");
}

#[test]
fn a_wait_that_was_moved_unseen_is_nobodys() {
    let handlers = Handlers::new(PIECES);
    let mut now = 100_000;
    let mut events = vec![
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        switch(now, VCPU, VcpuThreadState::Waiting, A),
    ];
    // More turns than the CPU keeps. Each turn is long enough to be reported when it is
    // overwritten.
    for (prev, next) in [(A, B), (B, A)].into_iter().cycle().take(40) {
        now += 30_000;
        events.push(switch(now, prev, VcpuThreadState::Unseen, next));
    }
    // The vCPU comes to another CPU, and no event showed the move.
    events.push(Happens::Switch {
        cpu: 1,
        now,
        prev: A,
        state: VcpuThreadState::Unseen,
        throttled: false,
        throttles: 0,
        next: VCPU,
    });
    handlers.happen(&events);
    let books = handlers.books(1);
    assert!(books.culprits.is_empty() && books.balance(), "{books:?}");
    let pieces = handlers.pieces().pieces;
    let told: Vec<_> = pieces
        .iter()
        .map(|it| (it.kind, it.runner.is_some()))
        .collect();
    assert_eq!(told, [(PieceKind::Unsure, false)]);
}

#[test]
fn what_a_throttled_wait_holds_beyond_the_turns_that_are_kept_is_unsure() {
    let handlers = Handlers::new(PIECES);
    let mut events = vec![
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        Happens::Switch {
            cpu: 0,
            now: 150,
            prev: VCPU,
            state: VcpuThreadState::Waiting,
            throttled: true,
            throttles: 0,
            next: A,
        },
    ];
    for turn in 0..40 {
        let (prev, next) = if turn % 2 == 0 { (A, B) } else { (B, A) };
        events.push(switch(160 + turn * 10, prev, VcpuThreadState::Unseen, next));
    }
    events.push(switch(600, A, VcpuThreadState::Unseen, VCPU));
    handlers.happen(&events);
    let books = handlers.books(1);
    assert_eq!((books.unsure_ns, books.unnamed_ns), (450, 0));
    assert!(books.culprits.is_empty() && books.balance(), "{books:?}");
}

#[test]
fn threads_of_its_own_vmm_are_its_own() {
    let handlers = Handlers::new(PIECES);
    handlers.happen(&[
        Happens::Begins {
            now: 90,
            vcpu: 1,
            tgid: A.tid(),
            id: 1,
            has_cpu: false,
        },
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        switch(150, VCPU, VcpuThreadState::Waiting, A),
        switch(170, A, VcpuThreadState::Unseen, B),
        switch(200, B, VcpuThreadState::Unseen, VCPU),
    ]);
    let books = handlers.books(1);
    let mut had: Vec<_> = books.culprits.iter().map(|it| (it.ns, it.is_own)).collect();
    had.sort_unstable();
    assert_eq!(had, [(20, true), (30, false)]);
}

#[test]
fn a_turn_that_nobody_saw_is_nobodys() {
    let handlers = Handlers::new(PIECES);
    handlers.happen(&[
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        switch(150, VCPU, VcpuThreadState::Waiting, A),
        switch(170, Who::Unseen, VcpuThreadState::Unseen, B),
        switch(200, B, VcpuThreadState::Unseen, VCPU),
    ]);
    let books = handlers.books(1);
    assert_eq!(named(&books), [("b".to_owned(), 30)]);
    assert_eq!((books.unnamed_ns, books.idle_ns), (20, 0));
    assert!(books.balance(), "{books:?}");
}

#[test]
fn a_wait_as_long_as_a_bound_is_within_it() {
    let handlers = Handlers::new(PIECES);
    for (begin, length) in [(0, 1_000), (1_000_000, 1_001)] {
        handlers.happen(&[
            switch(begin + 100, A, VcpuThreadState::Unseen, VCPU),
            switch(begin + 200, VCPU, VcpuThreadState::Waiting, A),
            switch(begin + 200 + length, A, VcpuThreadState::Unseen, VCPU),
            switch(begin + 50_000, VCPU, VcpuThreadState::Halted, A),
        ]);
    }
    let waits = handlers.books(1).waits;
    assert_eq!((waits.up_to(1_000), waits.count()), (1, 2));
}

#[test]
fn whoever_gets_a_place_has_nothing_of_who_had_it_and_is_another_culprit() {
    let handlers = Handlers::new(PIECES);
    let begins = |now, id| Happens::Begins {
        now,
        vcpu: 2,
        tgid: 1,
        id,
        has_cpu: false,
    };
    let waits_for_it = |now| {
        [
            switch(now, VCPU, VcpuThreadState::Waiting, OTHER),
            switch(now + 10, OTHER, VcpuThreadState::Ended, VCPU),
        ]
    };
    let events = [
        &[begins(90, 2), switch(100, A, VcpuThreadState::Unseen, VCPU)][..],
        &waits_for_it(150),
        &[begins(200, 8)],
        &waits_for_it(250),
    ];
    let ended = handlers.happen(&events.concat());
    // The earlier vCPU was unseen for 60 ns, and then ran for 10 ns.
    assert_eq!(ended[1].spent_ns(VcpuThreadState::Running), 10);
    let last = handlers.books(2);
    assert_eq!((last.first_mono_ns, last.since_mono_ns), (200, 260));
    assert_eq!(last.spent_ns(VcpuThreadState::Running), 10);
    let culprits = handlers.books(1).culprits;
    let culprits: Vec<_> = culprits.iter().map(|it| (it.vcpu, it.ns)).collect();
    assert_eq!(culprits, [(Some(id(2)), 10), (Some(id(8)), 10)]);
}

#[test]
fn whoever_the_limit_of_real_time_tasks_lets_in_is_not_blamed() {
    const URGENT: Who = Who::Vcpu(2);
    const RT: Who = Who::Task(b'R');
    let handlers = Handlers::new(PIECES);
    handlers.happen(&[
        switch(100, A, VcpuThreadState::Unseen, URGENT),
        // Real-time tasks reach their limit.
        switch(150, URGENT, VcpuThreadState::Waiting, A),
        switch(160, A, VcpuThreadState::Unseen, Who::Idle),
        switch(180, Who::Idle, VcpuThreadState::Unseen, RT),
        switch(220, RT, VcpuThreadState::Unseen, URGENT),
        switch(230, URGENT, VcpuThreadState::Halted, B),
        // `B` gets the CPU because of a spin lock of the kernel, and is blamed.
        Happens::Wakes {
            cpu: 0,
            now: 240,
            vcpu: 2,
            throttled: false,
        },
        switch(247, B, VcpuThreadState::Unseen, URGENT),
    ]);
    let books = handlers.books(2);
    let had = [("R".to_owned(), 40), ("b".to_owned(), 7)];
    assert_eq!(named(&books), had);
    let parts = (books.unsure_ns, books.throttled_ns, books.idle_ns);
    assert_eq!(parts, (10, 20, 0));
    assert!(books.balance(), "{books:?}");
}

#[test]
fn a_pause_is_unseen_from_its_begin_to_the_next_event() {
    let handlers = Handlers::new(PIECES);
    let third = Who::Vcpu(3);
    let on = |cpu, event| match event {
        Happens::Switch {
            now,
            prev,
            state,
            throttled,
            throttles,
            next,
            ..
        } => Happens::Switch {
            cpu,
            now,
            prev,
            state,
            throttled,
            throttles,
            next,
        },
        other => other,
    };
    handlers.happen(&[
        // One vCPU runs, one vCPU waits, and one vCPU sleeps.
        switch(100, A, VcpuThreadState::Unseen, VCPU),
        on(1, switch(100, A, VcpuThreadState::Unseen, OTHER)),
        on(1, switch(150, OTHER, VcpuThreadState::Waiting, A)),
        on(2, switch(100, A, VcpuThreadState::Unseen, third)),
        on(2, switch(130, third, VcpuThreadState::Halted, A)),
    ]);
    handlers.forget(200);
    handlers.happen(&[
        switch(1_000, VCPU, VcpuThreadState::Halted, B),
        on(1, switch(1_000, B, VcpuThreadState::Unseen, OTHER)),
        on(2, switch(1_000, B, VcpuThreadState::Unseen, third)),
        on(1, switch(1_040, OTHER, VcpuThreadState::Waiting, B)),
        on(1, switch(1_050, B, VcpuThreadState::Unseen, OTHER)),
    ]);
    let spent = |place: u32| {
        let books = handlers.books(place);
        assert!(books.balance(), "{books:?}");
        let states = [
            VcpuThreadState::Running,
            VcpuThreadState::Halted,
            VcpuThreadState::Unseen,
        ];
        states.map(|state| books.spent_ns(state))
    };
    assert_eq!(spent(1), [100, 0, 800]);
    assert_eq!(spent(2), [50 + 40, 0, 850]);
    assert_eq!(spent(3), [30, 70, 800]);
    // The wait that was in progress has no culprit. The next wait has a culprit.
    assert_eq!(handlers.books(2).waits.count(), 1);
    assert_eq!(handlers.books(2).unsure_ns, 10);
    assert_eq!(handlers.waiting().iter().sum::<u32>(), 0);
}
