//! Compares the handlers' counts for random lives of a few CPUs, vCPUs and tasks with the true
//! history of each CPU.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::harness::{Handlers, Happens, PIECES, TOLD_FROM_NS, VCPUS, Who, id};
use crate::gate::piece_kind::PieceKind;
use crate::gate::pieces::{LostPiece, LostPieces};
use crate::gate::state::VcpuThreadState;
use crate::gate::{GateVcpuId, VcpuBooks};

const CPUS: usize = 3;
/// Largest number of turns that a CPU keeps for one wait: GATE_TURNS of `bpf/gate.h`.
const TURNS: usize = 16;
/// Number of culprits that a vCPU keeps: GATE_CULPRITS of `bpf/gate.h`.
const CULPRITS: usize = 8;
const SLEEPS: [VcpuThreadState; 4] = [
    VcpuThreadState::Halted,
    VcpuThreadState::Blocked,
    VcpuThreadState::InVmm,
    VcpuThreadState::Asleep,
];

/// Time in which a vCPU was in one state.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    state: VcpuThreadState,
    begin: u64,
    end: u64,
    /// CPU for which the vCPU waits.
    cpu: usize,
    throttled: bool,
    /// Whether the vCPU was preempted on the CPU for which it waits.
    preempted: bool,
    /// Whether the wait ends with this time.
    is_last: bool,
}

/// A task that had a CPU: the name, and the id if the task is a vCPU. The id is needed because
/// another vCPU may use the slot later.
type Had = (String, Option<GateVcpuId>);

#[derive(Debug, Default)]
struct Life {
    events: Vec<Happens>,
    /// Tasks that had each CPU, each with the end of its turn in ns.
    turns: [Vec<(Who, Had, u64)>; CPUS],
    /// States of the vCPUs in each slot. A slot may have had several vCPUs, one after the other.
    vcpus: Vec<Vec<Vec<Stretch>>>,
    /// Ids of the vCPUs in `vcpus`.
    ids: Vec<Vec<u32>>,
    /// vCPUs whose slots other vCPUs got, ordered by time.
    gone: Vec<(u32, usize)>,
}

/// State of a vCPU while the life is created.
#[derive(Debug, Clone, Copy)]
struct Doing {
    state: VcpuThreadState,
    since: u64,
    cpu: usize,
    throttled: bool,
    preempted: bool,
}

/// Creates a life. The numbers of each step determine all choices.
fn life(steps: &[[u16; 4]], names: u8) -> Life {
    let mut life = Life {
        vcpus: vec![vec![Vec::new()]; VCPUS as usize + 1],
        ids: (0..=VCPUS).map(|place| vec![place]).collect(),
        ..Life::default()
    };
    let mut ids: Vec<u32> = (0..=VCPUS).collect();
    let mut last_id = VCPUS;
    let mut has = [Who::Idle; CPUS];
    let mut doing = vec![None::<Doing>; VCPUS as usize + 1];
    let mut now = 1_000;
    for [what, which, other, length] in steps {
        now += u64::from(length % 1_000) * u64::from(length % 7);
        let cpu = usize::from(*which) % CPUS;
        let throttled = other % 5 == 0;
        let place = 1 + u32::from(*other) % VCPUS;
        let at = doing[place as usize];
        let mut becomes = |place: u32, state, cpu, throttled| {
            let at = &mut doing[place as usize];
            let preempted = at.is_some_and(|at| at.state == VcpuThreadState::Running);
            let before = at.replace(Doing {
                state,
                since: now,
                cpu,
                throttled,
                preempted,
            });
            if let Some(before) = before {
                let lives = &mut life.vcpus[place as usize];
                lives.last_mut().unwrap().push(Stretch {
                    state: before.state,
                    begin: before.since,
                    end: now,
                    cpu: before.cpu,
                    throttled: before.throttled,
                    preempted: before.preempted,
                    is_last: state != VcpuThreadState::Waiting,
                });
            }
        };
        let had = |who: Who| match who {
            Who::Vcpu(place) => (who.name(), Some(id(ids[place as usize]))),
            _ => (who.name(), None),
        };
        match (what % 4, at.map(|at| (at.state, at.cpu))) {
            // The vCPU has ended, and another vCPU gets its slot.
            (_, Some((VcpuThreadState::Ended, _))) => {
                last_id += 1;
                ids[place as usize] = last_id;
                let lives = &mut life.vcpus[place as usize];
                life.gone.push((place, lives.len() - 1));
                lives.push(Vec::new());
                life.ids[place as usize].push(last_id);
                doing[place as usize] = Some(Doing {
                    state: VcpuThreadState::Unseen,
                    since: now,
                    cpu,
                    throttled: false,
                    preempted: false,
                });
                life.events.push(Happens::Begins {
                    now,
                    vcpu: place,
                    tgid: 1,
                    id: last_id,
                    has_cpu: false,
                });
            }
            // The vCPU is moved to another CPU.
            (0, Some((VcpuThreadState::Waiting, from))) => {
                let to = (from + 1) % CPUS;
                let throttled = at.is_some_and(|at| at.throttled);
                becomes(place, VcpuThreadState::Waiting, to, throttled);
                life.events.push(Happens::Moves {
                    cpu: from as u32,
                    now,
                    vcpu: place,
                    to: to as u32,
                    runs: has[from],
                });
                // As in the gate, a turn ends at a move, and the same task begins another turn.
                life.turns[from].push((has[from], had(has[from]), now));
            }
            // The vCPU is woken, or begins to exist.
            (1 | 0, state)
                if !matches!(
                    state,
                    Some((VcpuThreadState::Waiting | VcpuThreadState::Running, _))
                ) =>
            {
                becomes(place, VcpuThreadState::Waiting, cpu, throttled);
                life.events.push(Happens::Wakes {
                    cpu: cpu as u32,
                    now,
                    vcpu: place,
                    throttled,
                });
            }
            _ => {
                let prev = has[cpu];
                let next = match (what % 3, at) {
                    (0, Some(at)) if at.state == VcpuThreadState::Waiting && at.cpu == cpu => {
                        Who::Vcpu(place)
                    }
                    (1, _) => Who::Idle,
                    _ => {
                        let first = if other % 3 == 0 { b'A' } else { b'a' };
                        Who::Task(first + (other % u16::from(names)) as u8)
                    }
                };
                if next == prev {
                    continue;
                }
                let state = match other % 7 {
                    number @ 0..4 => SLEEPS[usize::from(number)],
                    4 => VcpuThreadState::Ended,
                    _ => VcpuThreadState::Waiting,
                };
                let throttled = throttled && state == VcpuThreadState::Waiting;
                if let Who::Vcpu(prev) = prev {
                    becomes(prev, state, cpu, throttled);
                }
                if let Who::Vcpu(next) = next {
                    becomes(next, VcpuThreadState::Running, cpu, false);
                }
                life.events.push(Happens::Switch {
                    cpu: cpu as u32,
                    now,
                    prev,
                    state,
                    throttled,
                    throttles: 0,
                    next,
                });
                life.turns[cpu].push((prev, had(prev), now));
                has[cpu] = next;
            }
        }
    }
    life
}

/// Expected parts of a vCPU's waiting time, in ns.
#[derive(Debug, Default)]
struct Truth {
    idle: u64,
    throttled: u64,
    unsure: u64,
    named: Vec<(Had, u64)>,
    lengths: Vec<u64>,
    /// Whether no wait has more turns than the gate keeps.
    is_short: bool,
}

fn truth(life: &Life, place: u32, stretches: &[Stretch]) -> Truth {
    let mut truth = Truth {
        is_short: true,
        ..Truth::default()
    };
    let mut waited = 0;
    for stretch in stretches {
        if stretch.state != VcpuThreadState::Waiting {
            continue;
        }
        waited += stretch.end - stretch.begin;
        if stretch.is_last {
            truth.lengths.push(waited);
            waited = 0;
        }
        let (mut from, mut count) = (0, 0);
        for (who, had, until) in &life.turns[stretch.cpu] {
            let begin = from.max(stretch.begin);
            let end = (*until).min(stretch.end);
            let came = from;
            from = *until;
            // A turn of length 0 takes room like any other turn.
            if *until > stretch.begin && begin <= stretch.end {
                count += 1;
            }
            if end <= begin {
                continue;
            }
            // No other task runs while a real-time task waits, except a task that the limit of
            // real-time tasks lets in.
            let came_meanwhile = came > stretch.begin || stretch.preempted;
            let let_in = came_meanwhile && Who::Vcpu(place).is_urgent() && who.is_ordinary();
            match (who, stretch.throttled || let_in) {
                (Who::Idle, false) => truth.idle += end - begin,
                (Who::Idle, true) => truth.throttled += end - begin,
                (_, true) => truth.unsure += end - begin,
                (_, false) => match truth.named.iter_mut().find(|(known, _)| known == had) {
                    Some((_, ns)) => *ns += end - begin,
                    None => truth.named.push((had.clone(), end - begin)),
                },
            }
        }
        truth.is_short &= count <= TURNS;
    }
    truth.named.sort();
    truth
}

fn named(books: &VcpuBooks) -> Vec<(Had, u64)> {
    let culprits = books.culprits.iter();
    let named = culprits.map(|it| ((it.name.to_string(), it.vcpu), it.ns));
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

fn hold(books: &VcpuBooks, life: &Life, place: u32, stretches: &[Stretch]) {
    assert!(books.balance(), "{books:?}");
    let truth = truth(life, place, stretches);
    for state in VcpuThreadState::ALL {
        let of_state = stretches.iter().filter(|stretch| stretch.state == state);
        let spent: u64 = of_state.map(|stretch| stretch.end - stretch.begin).sum();
        assert_eq!(books.spent_ns(state), spent, "{state:?}");
    }
    assert_eq!(books.waits.count(), truth.lengths.len() as u64);
    for bound in super::super::super::CLASSIC_NS {
        let up_to = truth.lengths.iter().filter(|length| **length <= bound);
        assert_eq!(books.waits.up_to(bound), up_to.count() as u64, "{bound}");
    }
    // No task is blamed for more time than it had the CPU.
    for (name, ns) in named(books) {
        let had = truth.named.iter().find(|(known, _)| *known == name);
        assert!(
            had.is_some_and(|(_, had)| *had >= ns),
            "{name:?} {ns}: {truth:?}"
        );
    }
    assert!(books.idle_ns <= truth.idle && books.throttled_ns <= truth.throttled);
    // If a wait has too many turns, no task is blamed for time in two cases. A quota may have kept
    // the vCPU from running, or the limit of real-time tasks may have let other tasks in.
    let is_urgent = Who::Vcpu(place).is_urgent();
    assert!(!is_urgent || books.unnamed_ns == 0 || truth.named.len() > CULPRITS);
    assert!(is_urgent || books.unsure_ns + books.throttled_ns <= truth.unsure + truth.throttled);
    let others: u64 = truth.named.iter().map(|(_, ns)| ns).sum();
    let blamed: u64 = named(books).iter().map(|(_, ns)| ns).sum();
    assert!(books.unnamed_ns + blamed <= others + truth.idle);
    if truth.is_short {
        let parts = (books.idle_ns, books.throttled_ns, books.unsure_ns);
        assert_eq!(parts, (truth.idle, truth.throttled, truth.unsure));
        if truth.named.len() <= CULPRITS {
            assert_eq!(named(books), truth.named);
            assert_eq!(books.unnamed_ns, 0);
        }
    }
}

/// Returns whether this task had the CPU during the whole time.
fn had(life: &Life, cpu: u32, who: &str, from: u64, until: u64) -> bool {
    let (mut at, mut begin) = (from, 0);
    for (_, (had, _), end) in &life.turns[cpu as usize] {
        if begin <= at && at < until.min(*end) {
            if had != who {
                return false;
            }
            at = *end;
        }
        begin = *end;
    }
    at >= until
}

/// Checks that all reported pieces of this vCPU are true. Also checks that each piece that is long
/// enough is reported exactly once.
fn hold_pieces(kept: &LostPieces, life: &Life, place: u32, number: usize) {
    let (pieces, whole_from) = (&kept.pieces, kept.whole_from_mono_ns);
    let vcpu = id(life.ids[place as usize][number]);
    let is_urgent = Who::Vcpu(place).is_urgent();
    let mut pieces: Vec<&LostPiece> = pieces.iter().filter(|it| it.vcpu == vcpu).collect();
    pieces.sort_by_key(|piece| piece.from_mono_ns);
    let overlap = |pair: &[&LostPiece]| pair[0].until_mono_ns > pair[1].from_mono_ns;
    assert!(!pieces.windows(2).any(overlap), "{pieces:?}");
    for piece in &pieces {
        let (from, until) = (piece.from_mono_ns, piece.until_mono_ns);
        let idles = || had(life, piece.cpu, "idle", from, until);
        match (piece.kind, &piece.runner) {
            (PieceKind::Ran, Some(runner)) => {
                assert!(had(life, piece.cpu, &runner.name, from, until), "{piece:?}");
            }
            (PieceKind::Idle | PieceKind::Throttled, None) => assert!(idles(), "{piece:?}"),
            // The task is unknown, so all turns in this piece must be too short to be reported.
            (PieceKind::Unknown, None) => assert!(
                // Reported turns may have been overwritten.
                whole_from > 0
                    || life.turns[piece.cpu as usize]
                        .windows(2)
                        .filter(|pair| from < pair[1].2 && pair[0].2 < until)
                        .all(|pair| pair[1].2 - pair[0].2 < TOLD_FROM_NS),
                "{piece:?}"
            ),
            (PieceKind::Unsure | PieceKind::Blocked, None) => {}
            _ => panic!("{piece:?}"),
        }
    }
    let mut told = 0;
    let mut waited = 0;
    for stretch in &life.vcpus[place as usize][number] {
        let length = stretch.end - stretch.begin;
        // Pieces before this instant may have been overwritten.
        if whole_from > 0 && stretch.begin <= whole_from {
            if stretch.state == VcpuThreadState::Waiting {
                waited = if stretch.is_last { 0 } else { waited + length };
            }
            continue;
        }
        let is_told = match stretch.state {
            VcpuThreadState::Waiting => {
                waited += length;
                let is_told = waited >= TOLD_FROM_NS || !stretch.is_last;
                if stretch.is_last {
                    waited = 0;
                }
                is_told
            }
            VcpuThreadState::Blocked => length >= TOLD_FROM_NS,
            _ => false,
        };
        if !is_told {
            continue;
        }
        let within = pieces.iter().filter(|piece| {
            stretch.begin <= piece.from_mono_ns && piece.until_mono_ns <= stretch.end
        });
        let of_it: Vec<&&LostPiece> = within.collect();
        for piece in &of_it {
            assert_eq!(piece.cpu as usize, stretch.cpu, "{piece:?}");
            let is_fit = match piece.kind {
                PieceKind::Blocked => stretch.state == VcpuThreadState::Blocked,
                PieceKind::Throttled | PieceKind::Unsure => stretch.throttled || is_urgent,
                PieceKind::Unknown | PieceKind::Ran | PieceKind::Idle => {
                    stretch.state == VcpuThreadState::Waiting && !stretch.throttled
                }
            };
            assert!(is_fit, "{piece:?} {stretch:?}");
        }
        let sum: u64 = of_it
            .iter()
            .map(|piece| piece.until_mono_ns - piece.from_mono_ns)
            .sum();
        assert_eq!(sum, length, "{stretch:?} {of_it:?}");
        told += of_it.len();
    }
    let later = pieces.iter().filter(|it| it.from_mono_ns > whole_from);
    assert!(
        whole_from > 0 || told == pieces.len(),
        "nothing else was told"
    );
    assert!(told <= later.count() || whole_from == 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn the_books_are_what_happened(
        steps in vec(any::<[u16; 4]>(), 1..160),
        names in 1_u8..20,
    ) {
        thread_local!(static HANDLERS: Handlers = Handlers::new(PIECES));
        let life = life(&steps, names);
        HANDLERS.with(|handlers| {
            handlers.reset();
            let ended = handlers.happen(&life.events);
            assert_eq!(ended.len(), life.gone.len());
            for (books, (place, number)) in ended.iter().zip(&life.gone) {
                hold(books, &life, *place, &life.vcpus[*place as usize][*number]);
            }
            let waiting: u32 = handlers.waiting().iter().sum();
            let mut still = 0;
            for place in 1..=VCPUS {
                let books = handlers.books(place);
                hold(&books, &life, place, life.vcpus[place as usize].last().unwrap());
                still += u32::from(books.state == VcpuThreadState::Waiting);
            }
            assert_eq!(waiting, still);
            let pieces = handlers.pieces();
            assert_eq!(pieces.whole_from_mono_ns, 0, "none was overwritten");
            for place in 1..=VCPUS {
                for number in 0..life.vcpus[place as usize].len() {
                    hold_pieces(&pieces, &life, place, number);
                }
            }
        });
    }
}

#[test]
fn what_was_overwritten_is_not_believed() {
    let handlers = Handlers::new(32);
    let held = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 500,
        ..ProptestConfig::default()
    });
    let lives = (vec(any::<[u16; 4]>(), 100..160), 1_u8..20);
    let run = runner.run(&lives, |(steps, names)| {
        let life = life(&steps, names);
        handlers.reset();
        handlers.happen(&life.events);
        let kept = handlers.pieces();
        for place in 1..=VCPUS {
            for number in 0..life.vcpus[place as usize].len() {
                hold_pieces(&kept, &life, place, number);
            }
        }
        let is_partly_kept = (1..u64::MAX).contains(&kept.whole_from_mono_ns);
        held.set(held.get() + u32::from(is_partly_kept && !kept.pieces.is_empty()));
        Ok(())
    });
    run.unwrap();
    assert!(held.get() > 50, "{}: too few rings were full", held.get());
}
