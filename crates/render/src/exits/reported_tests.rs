//! Tests with the exit of Figure 8 of the thesis: vmnoise reports the same times, with a name for
//! each part.

use std::sync::Arc;

use vmnoise_events::{
    ActivityKind, Exit, ExitReason, Isa, Share, ShareMap, Vcpu, VcpuId, Witnesses,
};
use vmnoise_explain::{
    LongestExit, NamedExit, NamedPart, NamedPiece, TraceNoise, TracedExit, exit_shares,
};

use super::{timeline, vm_noise};

const START_NS: u64 = 35_949_878_832_815;

fn part(share: Share, ns: u64, source: Option<&str>) -> NamedPart {
    NamedPart {
        phase: None,
        host_cpu: None,
        share,
        source: source.map(str::to_owned).map(Into::into),
        ns,
        count: source.is_some().into(),
    }
}

fn exit(sees_kvm: bool) -> NamedExit {
    let vcpu = Vcpu {
        id: VcpuId(0),
        tid: 4168,
        vmm_pid: 4160,
        number: Some(0),
        vm: 0,
        vm_name: "web".into(),
        identity: Default::default(),
        sees_kvm,
    };
    let split = ShareMap::from([
        (Share::Kvm, 11_860),
        (Share::Preempted, 7_582),
        (Share::HostIrq, 13_196),
    ]);
    NamedExit {
        shares: exit_shares(&split, sees_kvm, &Witnesses::OF_EXITS),
        vcpu: Arc::new(vcpu),
        exit: Exit {
            start_mono_ns: START_NS,
            end_mono_ns: START_NS + 32_638,
            reason: ExitReason {
                isa: Isa::Vmx,
                code: 1,
            },
            exit_cpu: 0,
            entry_cpu: 0,
            heavy: false,
            split,
        },
        parts: vec![
            part(Share::HostIrq, 13_196, Some("local_timer:236")),
            part(Share::Kvm, 11_860, None),
            part(Share::Preempted, 7_582, Some("rcuc/0:20")),
        ],
    }
}

fn piece(share: Share, start_ns: u64, end_ns: u64, name: Option<&str>) -> NamedPiece {
    NamedPiece {
        start_mono_ns: START_NS + start_ns,
        end_mono_ns: START_NS + end_ns,
        cpu: 0,
        share,
        name: name.map(Arc::from),
    }
}

#[test]
fn the_line_is_that_of_the_thesis_and_goes_on() {
    let noise = |kind, name: &str, start_ns: u64, net_ns| TraceNoise {
        cpu: 0,
        kind,
        name: name.into(),
        start_mono_ns: START_NS + start_ns,
        end_mono_ns: START_NS + start_ns + net_ns,
        net_ns,
    };
    let traced = TracedExit {
        pieces: Vec::new(),
        noise: vec![
            noise(ActivityKind::Irq, "local_timer:236", 1_509, 13_196),
            noise(ActivityKind::Thread, "rcuc/0:20", 19_867, 7_582),
        ],
        exit: exit(true),
    };
    assert_eq!(
        vm_noise::lines(&traced),
        "\
[000] 35949.878848: irq_noise: local_timer:236 start 35949.878834324 duration 13196 ns
[000] 35949.878860: thread_noise:   rcuc/0:20 start 35949.878852682 duration 7582 ns
[000] 35949.878865: vm_noise: vm_id:0 exit_cpu:0 exit_time:35949.878832815 entry_cpu:0 \
duration:32638 ns exit_reason:0x0001 overhead:11860 ns | vm:web vcpu:0 reason:EXTERNAL_INTERRUPT \
kvm:11860 vmm:0 preempted:7582 by:rcuc/0:20 host_irq:13196 by:local_timer:236
"
    );
}

#[test]
fn what_kvm_pvm_hides_is_unknown_in_the_line() {
    let mut named = exit(false);
    named.parts = vec![part(Share::Vmm, 32_638, None)];
    let traced = TracedExit {
        pieces: Vec::new(),
        noise: Vec::new(),
        exit: named,
    };
    let line = vm_noise::lines(&traced);
    assert!(line.contains(" overhead:- | vm:web"), "{line}");
    assert!(line.ends_with(" kvm:- vmm:32638 preempted:0\n"), "{line}");
}

#[test]
fn a_timeline_adds_up() {
    let longest = LongestExit {
        exit: exit(true),
        pieces: vec![
            piece(Share::Kvm, 0, 1_509, None),
            piece(Share::HostIrq, 1_509, 14_705, Some("local_timer:236")),
            piece(Share::Kvm, 14_705, 19_867, None),
            piece(Share::Preempted, 19_867, 27_449, Some("rcuc/0:20")),
            piece(Share::Kvm, 27_449, 32_638, None),
        ],
        misplaced_ns: 0,
    };
    assert_eq!(
        timeline::render(&[longest]),
        "
web vCPU 0: EXTERNAL_INTERRUPT, 32.638 us from 35949.878832815, CPU 0
    start us       net us
       0.000        1.509  |##                                      |  kvm
       1.509       13.196  | ##################                     |  host_irq local_timer:236
      14.705        5.162  |                  #######               |  kvm
      19.867        7.582  |                        ##########      |  preempted rcuc/0:20
      27.449        5.189  |                                 #######|  kvm
         sum       32.638
"
    );
}

#[test]
fn a_long_timeline_leaves_out_the_shortest_and_still_adds_up() {
    let piece = |at: u64| piece(Share::Kvm, at * at, (at + 1) * (at + 1), None);
    let mut named = exit(true);
    named.exit.end_mono_ns = START_NS + 100 * 100;
    let longest = LongestExit {
        exit: named,
        pieces: (0..100).map(piece).collect(),
        misplaced_ns: 3,
    };
    let text = timeline::render(&[longest]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 2 + 32 + 3);
    assert!(lines[35].contains("4.624"), "{text}");
    assert!(lines[35].ends_with("in 68 shorter pieces"), "{text}");
    assert!(lines[36].ends_with("sum       10.000"), "{text}");
    assert!(
        lines[37].contains("0.003  of it is in other shares"),
        "{text}"
    );
}
