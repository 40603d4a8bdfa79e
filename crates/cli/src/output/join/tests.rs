//! A joined run as it is printed: the exit of the thesis' Figure 25 in a gap of its guest.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

use vmnoise_events::{Anchor, Event, Finish, FinishReason, Gap, Rung, Share, Tally};
use vmnoise_explain::{
    Alternative, CandidateVm, Culprit, Detail, ExitBranch, Explainer, GapDetail, GuestColumns,
    HostSide, JoinedTotals, Losses, NamedInterval, NamedPart, Pairing, Side, Stretch, Summary,
    ThesisSum, Tree, Unsure, Verdict,
};

use super::*;
use crate::fixtures;

const GAP_NS: u64 = 64_500;

/// One CPU that was polled for a second and felt one gap.
fn summary(facts: &RunFacts) -> Summary {
    let mut explainer = Explainer::new(facts);
    let anchor = |at| {
        Event::Anchor(Anchor {
            before_tsc: at,
            mono_ns: at,
            after_tsc: at,
        })
    };
    let events = [
        anchor(0),
        anchor(1_000_000_000),
        Event::Gap(Gap {
            cpu: 0,
            start_tsc: 269_583_000,
            end_tsc: 269_583_000 + GAP_NS,
            steal_ns: 0,
            reloads: 1,
            light_exits: 0,
            heavy_exits: 0,
            interference: None,
        }),
        Event::Tally(Tally {
            cpu: 0,
            last_tsc: 1_000_000_000,
            ..Tally::default()
        }),
        Event::Finish(Finish {
            reason: FinishReason::Duration,
            mono_ns: 1_000_000_000,
        }),
    ];
    for event in &events {
        explainer.feed(event, &mut |_| {});
    }
    let mut summary = explainer.finish();
    summary.cpus[0].guest_columns = GuestColumns {
        steal_ns: Some(30_257),
        virt_ns: Some(32_229),
        hw_noise_ns: Some(0),
        light_exits: Some(41),
        heavy_exits: Some(0),
    };
    summary
}

fn facts(machine: &str, hypervisor: Option<&str>, probe: &str) -> RunFacts {
    let mut facts = fixtures::facts();
    facts.options.cpus = vec![0];
    facts.host.cpu_model = machine.into();
    facts.host.kernel = "6.2.0-rt3".into();
    facts.host.hypervisor = hypervisor.map(str::to_owned).map(Into::into);
    facts.rungs = vec![Rung {
        probe: probe.into(),
        rung: "tp_btf".into(),
        best: true,
        limit: Default::default(),
        remedy: Default::default(),
    }];
    facts
}

fn on_host(share: Share, ns: u64, name: Option<&str>) -> NamedPart {
    let is_who = name.is_some();
    NamedPart {
        phase: None,
        share,
        source: name.map(str::to_owned).map(Into::into),
        host_cpu: is_who.then_some(3),
        ns,
        count: is_who.into(),
    }
}

fn detail(lost_activities: u64) -> Detail {
    Detail::Gap(GapDetail {
        start_tsc: 269_583_000,
        end_tsc: 269_583_000 + GAP_NS,
        lost_activities: Some(lost_activities),
        ..GapDetail::default()
    })
}

fn tree() -> Tree {
    let parts = vec![
        on_host(Share::Preempted, 20_362, Some("ksoftirqd/3:31")),
        on_host(Share::Kvm, 17_998, None),
        on_host(Share::HostIrq, 11_004, Some("local_timer:236")),
        on_host(Share::Preempted, 9_895, Some("rcuc/3:30")),
        on_host(Share::HostSoftirq, 2_504, Some("NET_RX:3")),
        on_host(Share::HostIrq, 411, Some("irq_work:246")),
        on_host(Share::Unexplained, 312, None),
    ];
    Tree {
        of: NamedInterval {
            cpu: 0,
            at_ns: 269_583_000,
            start_mono_ns: 269_583_000,
            dur_ns: GAP_NS,
            parts: Vec::new(),
            detail: detail(0),
        },
        stretches: vec![Stretch {
            phase: None,
            dur_ns: GAP_NS,
            guest: vec![NamedPart {
                phase: None,
                host_cpu: None,
                share: Share::Irq,
                source: Some("local_timer:236".into()),
                ns: 1_514,
                count: 1,
            }],
            exits: vec![ExitBranch {
                reason: "EXTERNAL_INTERRUPT".into(),
                heavy: false,
                exit_cpu: 3,
                entry_cpu: 3,
                after_ns: 96,
                dur_ns: 62_486,
                parts,
                pieces: Vec::new(),
            }],
            steal_ns: 0,
            residual_ns: 500,
        }],
        residual: Share::Unexplained,
        witnessed: true,
    }
}

fn culprit(side: Side, share: Share, name: Option<&str>, ns: u64) -> Culprit {
    Culprit {
        side,
        share,
        name: name.map(str::to_owned).map(Into::into),
        cpu: match side {
            Side::Host if !matches!(share, Share::Kvm) => Some(3),
            Side::Guest => Some(0),
            _ => None,
        },
        gaps: 1,
        total_ns: ns,
        max_ns: ns,
        percent: ns as f64 * 100.0 / GAP_NS as f64,
    }
}

fn pair() -> Pair {
    Pair {
        cpu: 0,
        vm: "l2".into(),
        vmm_pid: 4160,
        vcpu: Some(0),
        tid: 4168,
        clocks: 1,
        overlap_ns: 998_000_000,
        exits_tested: 40,
        exits_inside: 39,
        exits_contradicted: 0,
        by_chance_percent: 0.0065,
        slack_ns: Some((-96, 1_418)),
        anchors_ns: 30,
        bound_ns: 86,
        log10_odds: 41.7,
        against: Alternative::Chance,
        verdict: Verdict::Proven,
        joined: true,
        leans_on: None,
    }
}

fn run(summary: Summary) -> JoinedRun {
    JoinedRun {
        latencies: None,
        summary,
        pairs: vec![pair()],
        pairing: Pairing {
            verdict: Verdict::Proven,
            log10_odds: 41.7,
            candidates: vec![CandidateVm {
                vm: "l2".into(),
                vmm_pid: 4160,
                verdict: Verdict::Proven,
                log10_odds: 41.7,
                against: Alternative::Chance,
                pairs: vec![pair()],
            }],
        },
        joined: JoinedTotals {
            gaps: 1,
            witnessed: 1,
            joined: 1,
            witnessed_above: 1,
            joined_above: 1,
            witnessed_ns: GAP_NS,
            witnessed_unexplained_ns: 812,
            joined_ns: GAP_NS,
            unexplained_ns: 812,
            exits: 1,
            unsure: Unsure::default(),
            unbounded_kvm_ns: 0,
        },
        above_ns: 20_000,
        culprits: vec![
            culprit(Side::Host, Share::Preempted, Some("ksoftirqd/3:31"), 20_362),
            culprit(Side::Host, Share::Kvm, Some("EXTERNAL_INTERRUPT"), 17_998),
            culprit(Side::Host, Share::HostIrq, Some("local_timer:236"), 11_004),
            culprit(Side::Host, Share::Preempted, Some("rcuc/3:30"), 9_895),
            culprit(Side::Host, Share::HostSoftirq, Some("NET_RX:3"), 2_504),
            culprit(Side::Guest, Share::Irq, Some("local_timer:236"), 1_514),
            culprit(Side::Unknown, Share::Unexplained, None, 812),
            culprit(Side::Host, Share::HostIrq, Some("irq_work:246"), 411),
        ],
        trees: vec![tree()],
        thesis: Some(ThesisSum {
            exits: 1,
            length_ns: 62_486,
            thesis_ns: 59_670,
            ours_ns: 62_174,
        }),
        host: HostSide {
            kernel: "6.2.0-rt3".into(),
            hypervisor: None,
            threshold_ns: 0,
            only_reasons: Vec::new(),
            losses: Losses::default(),
            lost_events: 0,
            late_events: 0,
            complete: true,
            finish_reason: Some(FinishReason::Duration),
        },
    }
}

/// The guest's facts and its host's.
fn both() -> (RunFacts, RunFacts) {
    (
        facts("J4105", Some("KVM"), "interrupts"),
        facts("J4105", None, "exits of every VM"),
    )
}

#[test]
fn text_names_both_sides() {
    let (guest, host) = both();
    let run = run(summary(&guest));
    let text = Joined {
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
 gaps that the host witnessed: 1 of 1 (100.00 %)
 of these with an exit in them: 1 of 1 (100.00 %); of 20.0 us and more: 1 of 1 (100.00 %)
 exits in gaps: 1; unexplained of the witnessed gaps' 64.5 us: 812 ns (1.259 %); of those with an exit 64.5 us: 812 ns (1.259 %)

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
   |-     62.486  exit EXTERNAL_INTERRUPT, LW, host CPU 3, 0.096 after the gap's begin
   |   |-     20.362  preempted    ksoftirqd/3:31, host CPU 3
   |   |-     17.998  kvm
   |   |-     11.004  host_irq     local_timer:236, host CPU 3
   |   |-      9.895  preempted    rcuc/3:30, host CPU 3
   |   |-      2.504  host_softirq NET_RX:3, host CPU 3
   |   |-      0.411  host_irq     irq_work:246, host CPU 3
   |   `-      0.312  unexplained  (residual)
   `-      0.500  unexplained  (residual)

How much of 1 joined exits with work of the host in them is explained: 62.5 us in all
 sum                                 time  % of it
 interrupts + threads + overhead  59.7 us   95.493
 all that is booked here          62.2 us   99.501

Periodic residual: none found

What this result rests on: the guest, whose lines call its own kernel the host
 interrupts: tp_btf
 lost events: 0, late: 0
 clock bound: 0 ns
 own cost: - BPF runs, - in all (- % of a measured CPU's time)
 unexplained: 100.000 % of the noise is residual

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
    let leaning = Pair {
        cpu: 1,
        log10_odds: 2.3,
        leans_on: Some(0),
        ..pair()
    };
    let open = Pair {
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
    run.trees[0].witnessed = false;
    run.trees[0].of.detail = detail(2);
    run.host.complete = false;
    run.host.threshold_ns = 5_000;
    run.host.only_reasons = vec!["io".into(), "npf".into()];
    let joined = Joined {
        guest: &guest,
        host: &host,
        run: &run,
    };
    let text = joined.text();
    for line in [
        "   0     -  l2    4168  998.000 ms       1      40      97.50         0.01  10^41                   -  86 ns",
        "   1     0  l2    4168  998.000 ms       1      40      97.50         0.01   10^2  -96 ns .. +1418 ns  86 ns",
        "   2     0  l2    4168  998.000 ms       1      40      97.50         0.01  10^-1  -96 ns .. +1418 ns  86 ns",
        " CPU 1 leans on CPU 0: its own odds are no proof, and no other vCPU fits it better",
        " CPU 2 is not joined, and is as in the guest alone: nothing tells which vCPU it is",
        " gaps that the host witnessed: 0 of 3 (0.00 %)",
        " of these with an exit in them: 0 of 0; of 20.0 us and more: 0 of 0",
        " exits in gaps: 0; unexplained of the witnessed gaps' 0 ns: 0 ns (- %); of those with an exit 0 ns: 0 ns (- %)",
        " 41 gaps are shorter than the clocks are sure of, 1 exit has less of its gap than that: nobody on the host is named for their 39.0 us",
        "      64.500  CPU 0 (vCPU - of l2) at 0.269583 s; the host did not witness it; 2 of the guest's activities lost",
        " 3 gaps have no witness below: the host did not record then, or their clock is not known",
        " exits with less than 5000 ns of noise were not recorded one by one",
        " exits were recorded one by one for io, npf alone",
        " 7000 ns of kvm without a bound: too few exits for the same reason show what KVM usually takes",
        " the run did not end in order: this is what it had seen so far",
    ] {
        let found = text.lines().filter(|found| *found == line);
        assert_eq!(found.count(), 1, "{line}\n{text}");
    }
    // The page has these, and its own table of the pairs.
    let limits = caveats::render(&joined);
    for line in [" CPU 1 leans on CPU 0: ", " CPU 2 is not joined, and "] {
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
    let text = Joined {
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
    // 100 + ... + 187 of the first 88.
    assert!(
        text.contains("   |-     12.628  in 88 shorter exits\n"),
        "{text}"
    );
}

#[test]
fn json_has_the_head_first_and_every_key_is_documented() {
    let (guest, host) = both();
    let run = run(summary(&guest));
    let mut out = Vec::new();
    let document = Document::new(&Joined {
        guest: &guest,
        host: &host,
        run: &run,
    });
    json::write(&mut out, &document).unwrap();
    let text = String::from_utf8(out).unwrap();
    let first: Vec<&str> = text.lines().skip(1).take(6).collect();
    let head = [
        "schema",
        "tool_version",
        "kernel",
        "hypervisor",
        "started_at",
        "options",
    ];
    for (line, key) in first.iter().zip(head) {
        assert!(line.starts_with(&format!("  \"{key}\": ")), "{text}");
    }

    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "vmnoise.join/1");
    assert_eq!(json["above_ns"], 20_000);
    assert_eq!(json["pairs"][0]["slack_ns"], serde_json::json!([-96, 1418]));
    assert_eq!(json["culprits"][0]["side"], "host");
    assert_eq!(json["culprits"][6]["cpu"], serde_json::Value::Null);
    assert_eq!(json["trees"][0]["exits"][0]["parts"][1]["share"], "kvm");
    assert_eq!(json["host"]["hypervisor"], serde_json::Value::Null);
    assert_eq!(json["cpus"][0]["guest_columns"]["virt_ns"], 32_229);

    let page = include_str!("../../../../../docs/json.md");
    let (_, section) = page.split_once("## `vmnoise.join/1`").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    for part in ["host", "pairs", "joined", "culprits", "trees", "thesis"] {
        let mut keys = vec![part.to_owned()];
        collect_keys(&json[part], &mut keys);
        for key in keys {
            let words = section.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            assert!(
                words.into_iter().any(|word| word == key),
                "docs/json.md says nothing of `{key}` in `{part}`"
            );
        }
    }
}

/// The names of all members, those of options and losses apart: they are the summary's.
fn collect_keys(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                keys.push(key.clone());
                if !["options", "losses", "rungs"].contains(&key.as_str()) {
                    collect_keys(value, keys);
                }
            }
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| collect_keys(value, keys));
        }
        _ => {}
    }
}
