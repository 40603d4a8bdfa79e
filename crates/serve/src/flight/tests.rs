//! Writes an invented history with known causes into a recording, and checks how it is explained.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use vmnoise_events::{Activity, Anchor, ClockFacts, ClockSource, HostFacts, Share};
use vmnoise_explain::{ExitBudget, ExitExplainer};
use vmnoise_recording::RecordingReader;
use vmnoise_tracer::{LostPiece, PieceKind, Runner};

use super::*;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn machine() -> Machine {
    Machine {
        host: HostFacts {
            allowed_cpus: vec![0, 1],
            ..HostFacts::default()
        },
        clock: ClockFacts::own(ClockSource::Tsc, S),
        rdtsc_cycles: 20,
    }
}

fn anchor(mono_ns: u64) -> Anchor {
    Anchor {
        before_tsc: mono_ns,
        mono_ns,
        after_tsc: mono_ns,
    }
}

fn spent(until: u64, ran: u64, preempted: u64) -> Spent {
    let mut spent = Spent {
        until_mono_ns: until,
        first_mono_ns: S,
        ran_ns: ran,
        ..Spent::default()
    };
    spent.lost[Share::Preempted] = preempted;
    spent
}

fn snapshot(at: u64, vcpus: &[(u32, Spent)]) -> Snapshot {
    let vcpus = vcpus.iter();
    Snapshot {
        anchor: anchor(at),
        missed: 0,
        vcpus: vcpus.map(|(id, spent)| (id_of(*id), *spent)).collect(),
    }
}

fn id_of(number: u32) -> GateVcpuId {
    GateVcpuId(number)
}

fn piece(
    vcpu: u32,
    kind: PieceKind,
    cpu: u32,
    from: u64,
    until: u64,
    who: Option<&str>,
) -> LostPiece {
    LostPiece {
        vcpu: id_of(vcpu),
        kind,
        cpu,
        from_mono_ns: from,
        until_mono_ns: until,
        runner: who.map(|name| Runner {
            name: name.into(),
            tid: 7,
            vcpu: (name == "vcpu 2").then(|| id_of(2)),
        }),
    }
}

fn member(vcpu: GateVcpuId) -> Option<Arc<Member>> {
    let (vm, tid) = if vcpu == id_of(1) {
        ("web", 101)
    } else {
        ("db", 102)
    };
    Some(Arc::new(Member {
        vm: vm.into(),
        tid,
        vmm_pid: tid - 50,
        number: Some(0),
        identity: VmIdentity::default(),
    }))
}

/// Explanation of a recording: the sum of the parts of all exits by VM, share and source, and the
/// totals.
#[derive(Debug, Default)]
struct Told {
    parts: BTreeMap<(String, Share, String), u64>,
    exits: Vec<(u64, u64)>,
    summary: Option<vmnoise_explain::ExitsRun>,
    /// VMs in the file before any filter. `activities` are the activities of CPUs in the file.
    vms: Vec<String>,
    activities: Vec<Activity>,
}

fn told(recording: &[u8]) -> Told {
    let mut reader = RecordingReader::new(recording).unwrap();
    let mut explainer = ExitExplainer::new(&reader.facts().clone());
    let mut told = Told::default();
    let mut budgets: Vec<ExitBudget> = Vec::new();
    while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
        match &event {
            Event::Vcpu(vcpu) => told.vms.push(vcpu.vm_name.to_string()),
            Event::Activity(activity) => told.activities.push(*activity),
            _ => {}
        }
        explainer.push(&event, &mut |budget| budgets.push(budget.clone()));
    }
    for budget in budgets {
        told.exits
            .push((budget.exit.start_mono_ns, budget.exit.end_mono_ns));
        for part in &budget.parts {
            let name = part.source.map(|id| explainer.source_name(id).to_owned());
            let vm = told.vms[budget.vcpu.0 as usize].clone();
            let key = (vm, part.share, name.unwrap_or_default());
            *told.parts.entry(key).or_insert(0) += part.ns;
        }
    }
    told.summary = Some(explainer.finish());
    told
}

fn material<'a>(
    machine: &'a Machine,
    snapshots: &'a Snapshots,
    pieces: Vec<LostPiece>,
) -> Material<'a> {
    Material {
        machine,
        pieces: LostPieces {
            pieces,
            whole_from_mono_ns: 0,
        },
        snapshots,
        now: snapshot(
            20 * S,
            &[
                (1, spent(20 * S, 12 * S, 5 * S)),
                (2, spent(20 * S, 19 * S, 0)),
            ],
        ),
        member: &member,
        clocks: &|vcpu| match vcpu {
            GateVcpuId(1) => vec![AHEAD],
            _ => Vec::new(),
        },
    }
}

/// Clock of the guest of vCPU 1. The guest has this clock from the discovery of the vCPU on.
const AHEAD: VcpuClock = VcpuClock {
    vcpu: vmnoise_events::VcpuId(1),
    before_until_mono_ns: S,
    from_mono_ns: S,
    offset_tsc: 77,
    ratio: 1,
    ratio_frac_bits: 0,
};

fn history() -> Vec<LostPiece> {
    use PieceKind::{Blocked, Idle, Ran, Throttled};
    vec![
        // The pieces of a wait are written in reverse order.
        piece(1, Ran, 0, 11 * S + 3 * MS, 11 * S + 4 * MS, Some("backup")),
        piece(1, Idle, 0, 11 * S + 2 * MS, 11 * S + 3 * MS, None),
        piece(1, Ran, 0, 11 * S, 11 * S + 2 * MS, Some("vcpu 2")),
        // Two vCPUs wait for the same CPU. Each wait covers a part of the activity on this CPU.
        piece(2, Ran, 1, 12 * S + MS, 12 * S + 2 * MS, Some("backup")),
        piece(1, Ran, 1, 12 * S, 12 * S + 3 * MS, Some("backup")),
        piece(2, Throttled, 1, 13 * S, 13 * S + 5 * MS, None),
        piece(1, Blocked, 0, 14 * S, 14 * S + 6 * MS, None),
        // This piece lies before the first snapshot of the recording.
        piece(1, Ran, 0, 2 * S, 3 * S, Some("old")),
    ]
}

/// Writes the history with the snapshots `made` into a recording, and explains it.
fn told_from(made: &[Snapshot], wanted: &Wanted) -> Told {
    let machine = machine();
    let mut snapshots = Snapshots::default();
    for snapshot in made {
        snapshots.push(snapshot.clone());
    }
    told(&recording(material(&machine, &snapshots, history()), wanted, None).unwrap())
}

#[test]
fn each_ns_is_told_under_the_name_of_who_had_it() {
    let told = told_from(
        &[snapshot(5 * S, &[(1, spent(5 * S, 3 * S, S))])],
        &Wanted::default(),
    );
    let of = |vm: &str, share, who: &str| {
        let key = (vm.to_owned(), share, who.to_owned());
        told.parts.get(&key).copied().unwrap_or(0)
    };
    assert_eq!(of("web", Share::Preempted, "backup:7"), 4 * MS);
    assert_eq!(of("web", Share::Preempted, "db:7"), 2 * MS);
    assert_eq!(of("web", Share::Kvm, ""), MS);
    assert_eq!(of("web", Share::Blocked, ""), 6 * MS);
    assert_eq!(of("db", Share::Preempted, "backup:7"), MS);
    let throttled = told
        .parts
        .iter()
        .filter(|((_, share, _), _)| *share == Share::Throttled);
    let throttled: u64 = throttled.map(|(_, ns)| ns).sum();
    assert_eq!(throttled, 5 * MS);
    let all: u64 = told.parts.values().sum();
    let lengths: u64 = told.exits.iter().map(|(from, until)| until - from).sum();
    assert_eq!((all, lengths), (19 * MS, 19 * MS));
    assert!(told.parts.keys().all(|(_, _, who)| !who.contains("old")));
    // A CPU does only one thing at a time, so the recorded activities do not overlap.
    let mut ran = told.activities;
    ran.sort_by_key(|it| (it.cpu, it.start_mono_ns));
    let overlap = |pair: &[Activity]| {
        pair[0].cpu == pair[1].cpu && pair[0].end_mono_ns > pair[1].start_mono_ns
    };
    assert!(!ran.windows(2).any(overlap), "{ran:?}");
}

#[test]
fn totals_are_of_the_time_that_is_told() {
    let told = told_from(
        &[snapshot(5 * S, &[(1, spent(5 * S, 3 * S, S))])],
        &Wanted::default(),
    );
    let vms = told.summary.unwrap().exits.vms;
    let web = &vms.iter().find(|vm| vm.name == "web").unwrap().vcpus[0];
    // In 15 s the vCPU ran 9 s and waited 4 s. The other 2 s are unexplained.
    assert_eq!(web.time_ns.span_ns(), 15 * S);
    assert_eq!(web.time_ns.guest, 9 * S);
    assert_eq!(web.time_ns.taken[Share::Preempted], Some(4 * S));
    assert_eq!(web.time_ns.taken[Share::Unexplained], Some(2 * S));
    // Exits and interrupts were not observed.
    for share in [
        Share::Kvm,
        Share::Vmm,
        Share::HostIrq,
        Share::HostSoftirq,
        Share::HostNmi,
    ] {
        assert_eq!(web.time_ns.taken[share], None, "{share:?}");
    }
    assert_eq!((web.light, web.heavy), (None, None));
    // The times of a vCPU that was found later begin at its discovery.
    let db = &vms.iter().find(|vm| vm.name == "db").unwrap().vcpus[0];
    assert_eq!(db.time_ns.span_ns(), 19 * S);
}

#[test]
fn what_was_overwritten_is_no_part_of_it() {
    let machine = machine();
    let mut snapshots = Snapshots::default();
    snapshots.push(snapshot(5 * S, &[]));
    snapshots.push(snapshot(10 * S, &[]));
    snapshots.push(snapshot(15 * S, &[]));
    let mut material = material(&machine, &snapshots, history());
    material.pieces.whole_from_mono_ns = 11 * S + 4 * MS;
    let told = told(&recording(material, &Wanted::default(), None).unwrap());
    assert!(told.exits.is_empty(), "{:?}", told.exits);
}

#[test]
fn one_vm_is_told_without_the_others() {
    let machine = machine();
    let mut snapshots = Snapshots::default();
    snapshots.push(snapshot(5 * S, &[]));
    snapshots.push(snapshot(12 * S + 5 * MS, &[]));
    let wanted = Wanted {
        last_ns: Some(8 * S - 10 * MS),
        vm: Some("db".into()),
        vmm_pid: None,
    };
    let told_of = |wanted: &Wanted| {
        told(&recording(material(&machine, &snapshots, history()), wanted, None).unwrap())
    };
    let told = told_of(&wanted);
    assert_eq!(told.vms, ["db"]);
    assert!(told.parts.keys().all(|(vm, ..)| vm == "db"));
    assert_eq!(told.exits, [(13 * S, 13 * S + 5 * MS)]);

    // The earlier VM of process 1 had the same name.
    let of_another = Wanted {
        vmm_pid: Some(1),
        ..wanted
    };
    let told = told_of(&of_another);
    assert!(told.vms.is_empty() && told.exits.is_empty());
}
