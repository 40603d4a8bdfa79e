//! Time that the host took from this guest, as reported by the host's feed.

use vmnoise_explain::{CpuFromFeed, CpuSummary, EXIT_COLUMNS, Summary};

use super::table;

/// Maximum number of reasons, and of culprits, that are printed for one CPU; the JSON contains all.
const NAMES_PER_CPU: usize = 12;

/// Renders an empty line, then the tables; empty if no host reported anything.
pub fn render(summary: &Summary) -> String {
    let cpus_from_feed = || {
        let cpus = summary.cpus.iter();
        cpus.filter_map(|cpu| Some((cpu, cpu.host.as_ref()?)))
    };
    if cpus_from_feed().next().is_none() {
        return String::new();
    }
    let rows: Vec<_> = cpus_from_feed()
        .map(|(cpu, host)| (cpu.cpu, host.reported))
        .collect();
    let mut out = "\nTime taken, as reported by the host\n".to_owned();
    out += &table::of(&rows, |it| {
        it.count("CPU", |(cpu, _)| u64::from(*cpu))
            .time("covered", |(_, reported)| reported.covered_ns)
            .count("LW_EX", |(_, reported)| reported.light)
            .count("HW_EX", |(_, reported)| reported.heavy)
            .time("VIRT", |(_, reported)| reported.virt_ns)
            .each(EXIT_COLUMNS, |it, (title, shares)| {
                it.time(title, |(_, reported)| reported.shares_ns.sum_of_all(shares))
            })
            .time("HW_NOISE >=", |(_, reported)| reported.hw_at_least_ns)
            .time("HW_NOISE <=", |(_, reported)| reported.hw_at_most_ns)
            .count("lost", |(_, reported)| reported.lost)
    });
    if let Some(rows) = names(cpus_from_feed(), |host| host.reasons.as_deref()) {
        out += "\nWhy the vCPU left its guest, as reported by the host\n";
        out += &table::of(&rows, |it| {
            it.count("CPU", |(cpu, _)| u64::from(*cpu))
                .name("reason", |(_, reported)| Some(&reported.name))
                .count("exits", |(_, reported)| reported.exits)
                .time("time", |(_, reported)| reported.total_ns)
        });
    }
    if let Some(rows) = names(cpus_from_feed(), |host| host.culprits.as_deref()) {
        out += "\nWho took it, as reported by the host\n";
        out += &table::of(&rows, |it| {
            it.count("CPU", |(cpu, _)| u64::from(*cpu))
                .name("source", |(_, reported)| Some(&reported.name))
                .name("share", |(_, reported)| Some(reported.share.name()))
                .time("total", |(_, reported)| reported.total_ns)
        });
    }
    out
}

/// Returns a line about the feed itself; empty without a feed.
pub fn limits(summary: &Summary) -> String {
    let Some(feed) = &summary.feed else {
        return String::new();
    };
    let detail = feed.detail.map_or("-", |detail| detail.name());
    format!(
        " feed of the host ({detail}): frames {}, bytes {}; refused as impossible {}, damaged {}, \
         hang-ups {}; the interrupts of its device are noise in this guest\n",
        feed.frames, feed.bytes, feed.refused, feed.garbled, feed.hang_ups,
    )
}

/// Returns the first entries of each CPU, with the CPU's number; `None` if no host reports such
/// entries.
fn names<'a, T: 'a>(
    cpus_from_feed: impl Iterator<Item = (&'a CpuSummary, &'a CpuFromFeed)>,
    of: impl Fn(&'a CpuFromFeed) -> Option<&'a [T]>,
) -> Option<Vec<(u32, &'a T)>> {
    let mut rows = None;
    for (cpu, reported) in cpus_from_feed.filter_map(|(cpu, host)| Some((cpu, of(host)?))) {
        let rows = rows.get_or_insert_with(Vec::new);
        rows.extend(
            reported
                .iter()
                .take(NAMES_PER_CPU)
                .map(|reported| (cpu.cpu, reported)),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use vmnoise_events::{
        Anchor, CpuTally, Event, FeedDetail, FeedTotals, HostCulprit, HostFrame, HostReason, Share,
        ShareMap, fixtures,
    };
    use vmnoise_explain::Explainer;

    use super::*;

    /// Returns the summary of CPU 16 with a feed that has this level of detail.
    fn summary(detail: FeedDetail) -> Summary {
        let mut facts = fixtures::polling_facts();
        facts.host.hypervisor = Some("KVM".into());
        facts.host.apic_ids = vec![(16, 3)];
        let mut explainer = Explainer::new(&facts);
        let mut feed = |event: Event| explainer.push(&event, &mut |_| {});
        for at in [1_000_000, 900_000_000] {
            feed(Event::Anchor(Anchor {
                before_tsc: at,
                mono_ns: at,
                after_tsc: at,
            }));
        }
        feed(Event::Tally(CpuTally {
            cpu: 16,
            first_tsc: 1_000_000,
            last_tsc: 900_000_000,
            ..CpuTally::default()
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
    fn what_a_host_reports_is_shown_and_nothing_that_it_does_not() {
        let counts = render(&summary(FeedDetail::Counts));
        let lines: Vec<&str> = counts.lines().collect();
        assert_eq!(lines[1], "Time taken, as reported by the host");
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
        let summary = Explainer::new(&fixtures::polling_facts()).finish();
        assert_eq!(render(&summary) + &limits(&summary), "");
    }
}
