//! Tests of a joined run as text.

use vmnoise_events::Share;
use vmnoise_events::coverage::HostRecording;
use vmnoise_explain::{ExitBranch, JoinedTotals, Unsure};

use super::super::*;
use super::fixtures::{both, detail, on_host, pair, run, summary};

#[test]
fn text_names_both_sides() {
    let (guest, host) = both();
    let run = run(summary(&guest));
    let text = JoinResult {
        guest: &guest,
        host: &host,
        run: &run,
    }
    .text();
    let (before, rest) = text.split_once("\nWhere the noise of ").unwrap();
    assert_eq!(
        before,
        "\
A guest's gaps of 1000 ns and more, and what its host did in them
 guest: J4105, kernel 6.2.0-rt3, a guest of KVM, from 2026-01-01T00:00:00Z
 host:  J4105, kernel 6.2.0-rt3, from 2026-01-01T00:00:00Z

Which CPU of the guest is which vCPU, and what proves it
 CPU  vCPU  VM  thread     overlap  clocks  tested  in gaps %  by chance %   odds               slack  bound
   0     0  l2    4168  998.000 ms       1      40      97.50         0.01  10^41  -96 ns .. +1418 ns  86 ns
 gaps that the host recorded: 1 of 1 (100.00 %)
 of these with an exit in them: 1 of 1 (100.00 %); of 20.0 us and more: 1 of 1 (100.00 %)
 exits in gaps: 1; unexplained in the recorded gaps (64.5 us): 812 ns (1.259 %); in those with an exit (64.5 us): 812 ns (1.259 %)

                                          Operating System Noise
duration:   0 00:00:01 | time is in us
CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread       STEAL        VIRT    HW_NOISE       LW_EX       HW_EX
  0 #-           1000000           64    99.99360           -          64           1            0            0            0            0          30          32           0          41           0
"
    );
    let (_, after) = rest.split_once("\n\n").unwrap();
    assert_eq!(
        after,
        "\
Who took it: gaps of 20.0 us and more, 64.5 us in all
 % of noise    total     most  gaps  share         who
     31.569  20.4 us  20.4 us     1  preempted     ksoftirqd/3:31 on host CPU 3
     27.904  18.0 us  18.0 us     1  kvm           KVM, exits for EXTERNAL_INTERRUPT
     17.060  11.0 us  11.0 us     1  host_irq      local_timer:236 on host CPU 3
     15.341  9895 ns  9895 ns     1  preempted     rcuc/3:30 on host CPU 3
      3.882  2504 ns  2504 ns     1  host_softirq  NET_RX:3 on host CPU 3
      2.347  1514 ns  1514 ns     1  irq           local_timer:236 on guest CPU 0
      1.259   812 ns   812 ns     1  unexplained   (residual)
      0.637   411 ns   411 ns     1  host_irq      irq_work:246 on host CPU 3

The longest gap, in us
      64.500  CPU 0 (vCPU 0 of l2) at 0.269583 s
   |-      1.514  irq          local_timer:236, guest
   |-     62.486  exit EXTERNAL_INTERRUPT, LW, host CPU 3, 0.096 after the gap's start
   |   |-     20.362  preempted    ksoftirqd/3:31, host CPU 3
   |   |-     17.998  kvm
   |   |-     11.004  host_irq     local_timer:236, host CPU 3
   |   |-      9.895  preempted    rcuc/3:30, host CPU 3
   |   |-      2.504  host_softirq NET_RX:3, host CPU 3
   |   |-      0.411  host_irq     irq_work:246, host CPU 3
   |   `-      0.312  unexplained  (residual)
   `-      0.500  unexplained  (residual)

Explained part of 1 joined exits that contain work of the host, 62.5 us in all
 sum                                 time  % of it
 interrupts + threads + overhead  59.7 us   95.493
 all that vmnoise explains        62.2 us   99.501

Periodic residual: none found

What this result rests on: the guest (its lines call the guest's own kernel the host)
 interrupts: tp_btf
 lost events: 0, late: 0
 clock bound: 0 ns
 own cost: - BPF runs, - in all (- % of a measured CPU's time)
 unexplained: 100.000 % of the noise is residual
 not seen: steal was not watched: the hypervisor of this machine offers no steal clock; measure on the host

What this result rests on: the host
 exits of every VM: tp_btf
 lost events: 0
"
    );
}

#[test]
fn what_is_not_known_is_said() {
    let (guest, host) = both();
    let mut run = run(summary(&guest));
    run.pairs[0].slack_ns = None;
    run.pairs[0].vcpu = None;
    let leaning = VcpuPair {
        cpu: 1,
        log10_odds: 2.3,
        leans_on: Some(0),
        ..pair()
    };
    let open = VcpuPair {
        cpu: 2,
        log10_odds: -0.5,
        joined: false,
        ..pair()
    };
    run.pairing.candidates[0].pairs = vec![run.pairs[0].clone(), leaning, open];
    run.joined = JoinedTotals {
        gaps: 3,
        unsure: Unsure {
            count: 41,
            exits: 1,
            ns: 39_000,
        },
        unbounded_kvm_ns: 7_000,
        ..JoinedTotals::default()
    };
    run.summary.coverage.host = Some(HostRecording {
        uncovered_gaps: 3,
        uncovered_ns: 64_500,
        ..HostRecording::default()
    });
    run.trees[0].witnessed = false;
    run.trees[0].of.detail = detail(2);
    run.host.complete = false;
    run.host.threshold_ns = 5_000;
    run.host.only_reasons = vec!["io".into(), "npf".into()];
    let joined = JoinResult {
        guest: &guest,
        host: &host,
        run: &run,
    };
    let text = joined.text();
    for line in [
        "   0     -  l2    4168  998.000 ms       1      40      97.50         0.01  10^41                   -  86 ns",
        "   1     0  l2    4168  998.000 ms       1      40      97.50         0.01   10^2  -96 ns .. +1418 ns  86 ns",
        "   2     0  l2    4168  998.000 ms       1      40      97.50         0.01  10^-1  -96 ns .. +1418 ns  86 ns",
        " CPU 1 is joined because of the proof for CPU 0: its own odds prove nothing, and no other vCPU fits better",
        " CPU 2 is not joined, because its vCPU is unknown: its time is as in the guest alone",
        " gaps that the host recorded: 0 of 3 (0.00 %)",
        " of these with an exit in them: 0 of 0; of 20.0 us and more: 0 of 0",
        " exits in gaps: 0; unexplained in the recorded gaps (0 ns): 0 ns (- %); in those with an exit (0 ns): 0 ns (- %)",
        " 41 gaps are too short for the two clocks, 1 exit overlaps its gap by too little: no culprit on the host is named for their 39.0 us",
        "      64.500  CPU 0 (vCPU - of l2) at 0.269583 s; the host did not record it; 2 of the guest's activities lost",
        " not seen: the host did not record the vCPU during 3 gaps (64.5 us); record the host from before the guest's run to after it",
        " exits with less than 5000 ns of noise were not recorded one by one",
        " exits were recorded one by one only for io, npf",
        " 7000 ns of kvm without an upper bound: too few exits for the same reason show KVM's usual time",
        " the run did not end in order: the result covers the time before",
    ] {
        let found = text.lines().filter(|found| *found == line);
        assert_eq!(found.count(), 1, "{line}\n{text}");
    }
    // The HTML page prints these lines, but draws its own table of the pairs.
    let limits = caveats::render(&joined);
    for line in [" CPU 1 is joined because ", " CPU 2 is not joined, "] {
        assert!(limits.contains(line), "{line}\n{limits}");
    }
}

#[test]
fn a_crowd_is_put_together_and_still_adds_up() {
    let (guest, host) = both();
    let mut run = run(summary(&guest));
    let exits = (0..100).map(|nth| ExitBranch {
        after_ns: nth * 1_000,
        dur_ns: 100 + nth,
        parts: vec![on_host(Share::Kvm, 100 + nth, None)],
        ..run.trees[0].stretches[0].exits[0].clone()
    });
    run.trees[0].stretches[0].exits = exits.collect();
    run.culprits = vec![run.culprits[0].clone(); 25];
    let text = JoinResult {
        guest: &guest,
        host: &host,
        run: &run,
    }
    .text();
    assert!(text.contains(" … and 5 more, 101.8 us together (--format json lists all)\n"));
    let exits = text
        .lines()
        .filter(|line| line.contains("|-") && line.contains(" exit "));
    assert_eq!(exits.count(), 12);
    // The 88 shortest exits last 100 + 101 + ... + 187 = 12,628 ns.
    assert!(
        text.contains("   |-     12.628  in 88 shorter exits\n"),
        "{text}"
    );
}
