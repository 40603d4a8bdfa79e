//! A fleet in plain words.

use super::FleetPage;
use crate::figures::{count, duration, part_of, percent, sum, times};
use crate::findings::Finding;
use crate::fleet::{Fleet, Judged, LEAST, Lot, TIMES};
use crate::shares::deed;

/// Hosts, takers or ranks that are told in words.
const TOLD: usize = 5;
/// Parts below this many percent are no finding.
const LEAST_PERCENT: f64 = 1.0;
/// So much of its time may a host go by unseen without a word.
const UNSEEN_PERCENT: f64 = 5.0;

pub(super) fn subtitle(page: &FleetPage, fleet: &Fleet) -> String {
    let cpus: usize = fleet.hosts.iter().map(|host| host.cpus.len()).sum();
    let runs = page.runs.len() as u64;
    format!(
        "{}: {} of {}, {}",
        page.name,
        times(runs, "run", "runs"),
        times(fleet.hosts.len() as u64, "host", "hosts"),
        times(cpus as u64, "CPU", "CPUs")
    )
}

pub(super) fn headline(fleet: &Fleet) -> String {
    let judged = &fleet.judged_hosts;
    let Some(worst) = judged.places.first().map(|place| &fleet.hosts[*place]) else {
        return "No two hosts were looked at alike.".into();
    };
    let lost = percent(worst.noise_percent().unwrap_or(0.0));
    let (median, all) = (percent(judged.median), judged.places.len() as u64);
    match judged.out {
        _ if judged.places.len() == 1 => format!("{} loses {lost} of its time.", worst.name),
        _ if judged.places.len() < LEAST => format!(
            "Of {} hosts {} loses most: {lost} of its time.",
            count(all),
            worst.name
        ),
        0 => format!(
            "None of {} hosts stands out: the worst, {}, loses {lost} of its time, and the one in the middle {median}.",
            count(all),
            worst.name
        ),
        1 => format!(
            "One of {} hosts stands out: {} loses {lost} of its time, and the one in the middle {median}.",
            count(all),
            worst.name
        ),
        out => format!(
            "{} of {} hosts stand out: the worst, {}, loses {lost} of its time, and the one in the middle {median}.",
            count(out as u64),
            count(all),
            worst.name
        ),
    }
}

/// The most important first.
pub(super) fn findings(fleet: &Fleet) -> Vec<Finding> {
    let mut findings = standing_out(&fleet.hosts, &fleet.judged_hosts, |_| String::new());
    let total_ns = sum(fleet.takers.iter().map(|(_, taken)| taken.total_ns));
    for ((share, who), taken) in fleet.takers.iter().take(TOLD) {
        let part = part_of(taken.total_ns, total_ns);
        if part < LEAST_PERCENT {
            break;
        }
        findings.push(Finding {
            figure: percent(part),
            text: format!(
                "of all that was lost is {}, on {}",
                deed(*share, who.as_deref()),
                times(taken.lots, "host", "hosts")
            ),
        });
    }
    findings.extend(standing_out(
        &fleet.ranks,
        &fleet.judged_ranks,
        |rank| match rank.hosts.first() {
            Some(host) if rank.hosts.len() == 1 => format!(" It ran on {host}."),
            _ => format!(" It ran on {} hosts.", rank.hosts.len()),
        },
    ));
    findings.extend(not_comparable(fleet));
    findings.extend(missing(fleet));
    findings
}

fn standing_out(lots: &[Lot], judged: &Judged, more: impl Fn(&Lot) -> String) -> Vec<Finding> {
    let out = judged.standing_out();
    let told = out.iter().take(TOLD).map(|place| {
        let lot = &lots[*place];
        let lost = lot.noise_percent().unwrap_or(0.0);
        let most = judged.excess(lots, *place);
        let most = most.map_or_else(String::new, |((share, who), excess)| {
            format!(
                " Most of the difference, {} of its time, is {}.",
                percent(excess),
                deed(*share, who.as_deref())
            )
        });
        let of_median = match judged.median > 0.0 {
            true => format!(
                ": {:.1} times as much as the one in the middle",
                lost / judged.median
            ),
            false => String::new(),
        };
        Finding {
            figure: percent(lost),
            text: format!(
                "is what {} loses of its time{of_median}.{most}{}",
                lot.name,
                more(lot)
            ),
        }
    });
    let mut findings: Vec<Finding> = told.collect();
    if out.len() > TOLD {
        findings.push(Finding {
            figure: count((out.len() - TOLD) as u64),
            text: "more stand out: the table has them".into(),
        });
    }
    findings
}

fn not_comparable(fleet: &Fleet) -> Option<Finding> {
    let (workload, threshold_ns) = fleet.judged_hosts.looked?;
    let others = fleet.hosts.len() - fleet.judged_hosts.places.len();
    (others > 0).then(|| Finding {
        figure: times(others as u64, "host", "hosts"),
        text: format!(
            "cannot be held against the others, whose gaps are of `vmnoise {workload}` and of {} or more: their workload or \
             their threshold is another one, and they are in the tables alone",
            duration(threshold_ns)
        ),
    })
}

/// What may be missing in what is told of hosts.
fn missing(fleet: &Fleet) -> Vec<Finding> {
    let told = |is: &dyn Fn(&Lot) -> bool, what: &str| {
        let names: Vec<&str> = fleet
            .hosts
            .iter()
            .filter(|host| is(host))
            .map(|host| &*host.name)
            .collect();
        (!names.is_empty()).then(|| Finding {
            figure: times(names.len() as u64, "host", "hosts"),
            text: format!("{what}: {}", named(&names)),
        })
    };
    let unseen = |host: &Lot| host.unseen_percent().is_some_and(|it| it > UNSEEN_PERCENT);
    let findings = [
        told(
            &|host| host.lost_gaps > 0,
            "lost records that may have been gaps, and more time than is told",
        ),
        told(
            &unseen,
            "have CPUs at which nobody looked for more than 5\u{a0}% of the time: what was taken then is in no figure",
        ),
        told(
            &|host| host.incomplete > 0,
            "have a run that did not end in order: what was recorded by then is in it",
        ),
        told(
            &|host| host.lost_witnesses > 0,
            "lost events that would say who took a gap: somebody may have taken more than is told",
        ),
    ];
    findings.into_iter().flatten().collect()
}

/// The first few by name.
fn named(names: &[&str]) -> String {
    let first = names[..names.len().min(TOLD)].join(", ");
    match names.len().checked_sub(TOLD) {
        None | Some(0) => first,
        Some(more) => format!("{first} and {} more", count(more as u64)),
    }
}

/// What the page rests on, and what it cannot say.
pub(super) fn limits(page: &FleetPage, fleet: &Fleet) -> Vec<String> {
    let mut limits = vec![format!(
        "A host stands out that loses more than the upper quartile and three times the distance of the quartiles, and at \
         least {TIMES} times as much as the one in the middle; of fewer than {LEAST} none does. That is no test: hosts that \
         do other work lose other amounts, and may be in order."
    )];
    if let Some((_, threshold_ns)) = fleet.judged_hosts.looked {
        limits.push(format!(
            "Gaps below {} were not looked for, and are in no figure.",
            duration(threshold_ns)
        ));
    }
    limits.push(
        "Runs of a host at different times are added up; hosts were not all recorded at the same time.".into(),
    );
    if !fleet.ranks.is_empty() {
        limits.push(
            "A rank is told by what its CPU lost. Which rank was the last in a step is not known: hosts share no clock. \
             `vmnoise scale` says what waiting for the slowest costs."
                .into(),
        );
    }
    let gapless = page.gapless_runs as u64;
    if gapless > 0 {
        limits.push(format!(
            "{} of wake-ups or exits are not on this page: `vmnoise report` of their recordings shows them.",
            times(gapless, "run", "runs")
        ));
    }
    if fleet.hosts.iter().any(|host| host.pauses) {
        limits.push(
            "Of runs that paused in each period, parts are of the time in which they polled."
                .into(),
        );
    }
    limits
}
