//! What the host of a guest says it took, from its feed.

use vmnoise_events::Share;
use vmnoise_explain::{CpuSummary, CulpritTold, FedCpu, ReasonTold, Summary};

use super::{cells, table};
use crate::units::human;

/// Names of one CPU beyond these are in the JSON.
const NAMES_PER_CPU: usize = 12;

/// Its tables, behind an empty line; empty where no host told anything.
pub fn render(summary: &Summary) -> String {
    let fed = || {
        let cpus = summary.cpus.iter();
        cpus.filter_map(|cpu| Some((cpu, cpu.host.as_ref()?)))
    };
    if fed().next().is_none() {
        return String::new();
    }
    let rows: Vec<[String; 15]> = fed().map(|(cpu, host)| amounts(cpu, host)).collect();
    let headings = [
        "CPU",
        "told of",
        "LW_EX",
        "HW_EX",
        "VIRT",
        "kvm",
        "vmm",
        "preempted",
        "host irq",
        "blocked",
        "throttled",
        "halted",
        "HW_NOISE >=",
        "HW_NOISE <=",
        "lost",
    ];
    let mut out = format!(
        "\nWhat was taken, says the host\n{}",
        table::columns(headings, &[], &rows)
    );
    let reasons = names(fed(), |host| host.reasons.as_deref(), reason);
    if let Some(rows) = reasons {
        let headings = ["CPU", "reason", "exits", "time"];
        out += "\nWhy the vCPU left its guest, says the host\n";
        out += &table::columns(headings, &[1], &rows);
    }
    let culprits = names(fed(), |host| host.culprits.as_deref(), culprit);
    if let Some(rows) = culprits {
        let headings = ["CPU", "source", "share", "total"];
        out += "\nWho took it, says the host\n";
        out += &table::columns(headings, &[1, 2], &rows);
    }
    out
}

/// What the feed itself was, as one of the last lines; empty where there was none.
pub fn limits(summary: &Summary) -> String {
    let Some(feed) = &summary.feed else {
        return String::new();
    };
    let detail = feed.detail.map_or("-", |detail| detail.name());
    format!(
        " feed of the host ({detail}): frames {}, bytes {}; refused as untrue {}, damaged {}, \
         hang-ups {}; the interrupts that bring it are noise of this guest, by their device's name\n",
        feed.frames, feed.bytes, feed.refused, feed.garbled, feed.hang_ups,
    )
}

fn amounts(cpu: &CpuSummary, host: &FedCpu) -> [String; 15] {
    let told = &host.told;
    let shares = &told.shares_ns;
    [
        cpu.cpu.to_string(),
        human(told.covered_ns),
        cells::number(told.light),
        told.heavy.to_string(),
        human(told.virt_ns),
        cells::time(shares[Share::Kvm]),
        cells::time(shares[Share::Vmm]),
        cells::time(shares[Share::Preempted]),
        cells::time(shares.sum_of_all(Share::HOST_INTERRUPTS)),
        cells::time(shares[Share::Blocked]),
        cells::time(shares[Share::Throttled]),
        cells::time(shares[Share::Halted]),
        human(told.hw_at_least_ns),
        cells::time(told.hw_at_most_ns),
        told.lost.to_string(),
    ]
}

fn reason(told: &ReasonTold) -> [String; 3] {
    [
        told.name.to_string(),
        told.exits.to_string(),
        human(told.total_ns),
    ]
}

fn culprit(told: &CulpritTold) -> [String; 3] {
    [
        told.name.to_string(),
        told.share.to_string(),
        human(told.total_ns),
    ]
}

/// A row for each name of each CPU; `None` where no CPU's host tells them.
fn names<'a, T: 'a>(
    fed: impl Iterator<Item = (&'a CpuSummary, &'a FedCpu)>,
    of: impl Fn(&'a FedCpu) -> Option<&'a [T]>,
    row: impl Fn(&T) -> [String; 3],
) -> Option<Vec<[String; 4]>> {
    let mut rows = None;
    for (cpu, told) in fed.filter_map(|(cpu, host)| Some((cpu, of(host)?))) {
        let rows = rows.get_or_insert_with(Vec::new);
        rows.extend(told.iter().take(NAMES_PER_CPU).map(|told| {
            let [a, b, c] = row(told);
            [cpu.cpu.to_string(), a, b, c]
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use vmnoise_events::{
        Anchor, Event, FeedDetail, FeedTotals, HostCulprit, HostFrame, HostReason, ShareMap, Tally,
    };
    use vmnoise_explain::Explainer;

    use super::*;
    use crate::fixtures;

    /// CPU 16 as its host tells it, this openly.
    fn summary(detail: FeedDetail) -> Summary {
        let mut facts = fixtures::facts();
        facts.host.hypervisor = Some("KVM".into());
        facts.host.apic_ids = vec![(16, 3)];
        let mut explainer = Explainer::new(&facts);
        let mut feed = |event: Event| explainer.feed(&event, &mut |_| {});
        for at in [1_000_000, 900_000_000] {
            feed(Event::Anchor(Anchor {
                before_tsc: at,
                mono_ns: at,
                after_tsc: at,
            }));
        }
        feed(Event::Tally(Tally {
            cpu: 16,
            first_tsc: 1_000_000,
            last_tsc: 900_000_000,
            ..Tally::default()
        }));
        feed(Event::HostFrame(HostFrame {
            vcpu: 3,
            from_tsc: 100_000_000,
            until_tsc: 800_000_000,
            detail,
            sees_kvm: true,
            is_last: true,
            exits: 1_116,
            heavy: 7,
            split: ShareMap::from([
                (Share::Kvm, 3_200_207),
                (Share::Preempted, 44_169_255),
                (Share::HostIrq, 1_725_960),
                (Share::HostSoftirq, 162_194),
            ]),
            lost: 5,
            reasons: vec![HostReason {
                name: "interrupt".into(),
                exits: 807,
                dur_ns: 48_141_070,
            }],
            culprits: (0..20)
                .map(|turn| HostCulprit {
                    share: Share::Preempted,
                    name: format!("hog:{turn}").into(),
                    dur_ns: 1_000_000 - turn,
                })
                .collect(),
        }));
        feed(Event::FeedTotals(FeedTotals {
            bytes: 1_633,
            frames: 1,
            garbled: 2,
            hang_ups: 1,
        }));
        explainer.finish()
    }

    #[test]
    fn what_a_host_tells_is_shown_and_nothing_that_it_does_not() {
        let counts = render(&summary(FeedDetail::Counts));
        let lines: Vec<&str> = counts.lines().collect();
        assert_eq!(lines[1], "What was taken, says the host");
        let cells: Vec<&str> = lines[3].split("  ").map(str::trim).collect();
        let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
        assert_eq!(
            cells,
            [
                "16",
                "700.000 ms",
                "1109",
                "7",
                "5.088 ms",
                "3.200 ms",
                "0 ns",
                "44.169 ms",
                "1.888 ms",
                "0 ns",
                "0 ns",
                "0 ns",
                "0 ns",
                "0 ns",
                "5",
            ]
        );
        assert_eq!(lines.len(), 4, "{counts}");
        let reasons = render(&summary(FeedDetail::Reasons));
        assert!(
            reasons.contains("interrupt") && !reasons.contains("hog"),
            "{reasons}"
        );
        let full = render(&summary(FeedDetail::Full));
        assert_eq!(full.matches("hog:").count(), NAMES_PER_CPU, "{full}");
        let limits = limits(&summary(FeedDetail::Full));
        assert!(limits.contains("(full): frames 1, bytes 1633"), "{limits}");
    }

    #[test]
    fn without_a_feed_nothing_is_said() {
        let summary = Explainer::new(&fixtures::facts()).finish();
        assert_eq!(render(&summary) + &limits(&summary), "");
    }
}
