//! Describes a fleet in sentences.

use super::FleetPage;
use crate::figures::{count, duration, part_of, percent, sum, times};
use crate::findings::Finding;
use crate::fleet::{Fleet, Group, Judged, LEAST, LEAST_LOST, Lot, TIMES};
use crate::shares::deed;

/// Largest number of hosts, culprits or ranks in the sentences.
const TOLD: usize = 5;
/// Smallest part of the lost time that gets a finding, in percent.
const LEAST_PERCENT: f64 = 1.0;
/// Unobserved part of a host's time above which a finding is shown, in percent.
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
    let large: Vec<&Group> = judged.large().collect();
    let Some(largest) = judged.groups.first() else {
        return "No host can be compared: each was measured in several ways.".into();
    };
    if large.is_empty() {
        return of_few(fleet, largest);
    }
    let all: usize = large.iter().map(|group| group.places.len()).sum();
    let worst = judged.out.first().or_else(|| {
        let is_judged = |it: &&usize| large.iter().any(|group| group.places.contains(it));
        judged.places.iter().find(is_judged)
    });
    let group = worst.and_then(|place| judged.group_of(*place));
    let (name, lost) = worst.map_or(("", 0.0), |place| {
        let host = &fleet.hosts[*place];
        (&host.name, host.noise_percent().unwrap_or(0.0))
    });
    let of_its_like = match large.len() {
        1 => "",
        _ => " of its group",
    };
    let loses = format!(
        "loses {} of its time, and the median host{of_its_like} {}",
        percent(lost),
        percent(group.map_or(0.0, |it| it.median))
    );
    let all = count(all as u64);
    match judged.out.len() {
        0 => format!("None of {all} hosts stands out: the worst, {name}, {loses}."),
        1 => format!("One of {all} hosts stands out: {name} {loses}."),
        out => format!(
            "{} of {all} hosts stand out: the worst, {name}, {loses}.",
            count(out as u64)
        ),
    }
}

/// Returns the headline if the largest group is too small to be judged.
fn of_few(fleet: &Fleet, largest: &Group) -> String {
    let worst = largest.places.first().map(|place| &fleet.hosts[*place]);
    let (name, lost) = worst.map_or(("", 0.0), |host| {
        (&host.name, host.noise_percent().unwrap_or(0.0))
    });
    let lost = percent(lost);
    let is_one_group = fleet.judged_hosts.groups.len() == 1;
    match (largest.places.len(), is_one_group) {
        (1, true) => format!("{name} loses {lost} of its time."),
        (1, false) => "No two hosts were measured in the same way.".into(),
        (all, true) => format!("{name} loses most of {all} hosts: {lost} of its time."),
        (all, false) => {
            format!(
                "{name} loses most of {all} hosts that were measured in the same way: {lost} of its time."
            )
        }
    }
}

/// Returns the findings, the most important first.
pub(super) fn findings(fleet: &Fleet) -> Vec<Finding> {
    let mut findings = standing_out(&fleet.hosts, &fleet.judged_hosts);
    let total_ns = sum(fleet.takers.iter().map(|(_, taken)| taken.total_ns));
    for ((share, who), taken) in fleet.takers.iter().take(TOLD) {
        let part = part_of(taken.total_ns, total_ns);
        if part < LEAST_PERCENT {
            break;
        }
        findings.push(Finding {
            figure: percent(part),
            text: format!(
                "of all lost time is {}, on {}",
                deed(*share, who.as_deref()),
                times(taken.lots, "host", "hosts")
            ),
        });
    }
    findings.extend(standing_out(&fleet.ranks, &fleet.judged_ranks));
    findings.extend(not_comparable(fleet));
    findings.extend(missing(fleet));
    findings
}

fn standing_out(lots: &[Lot], judged: &Judged) -> Vec<Finding> {
    let out = &judged.out;
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
        let median = judged.group_of(*place).map_or(0.0, |it| it.median);
        let of_median = match median > 0.0 {
            true => format!(": {:.1} times the median", lost / median),
            false => String::new(),
        };
        Finding {
            figure: percent(lost),
            text: format!("of its time is lost by {}{of_median}.{most}", lot.name),
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
    let judged = &fleet.judged_hosts;
    let compared: usize = judged.large().map(|group| group.places.len()).sum();
    let others = fleet.hosts.len() - compared;
    let is_told = others > 0 && (compared > 0 || judged.groups.len() > 1);
    is_told.then(|| Finding {
        figure: times(others as u64, "host", "hosts"),
        text: format!(
            "cannot be compared, and are only in the tables: fewer than {LEAST} hosts were measured by the same workload \
             with the same threshold"
        ),
    })
}

/// Returns findings about missing data.
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
    let unseen = |host: &Lot| {
        host.most_unseen_percent()
            .is_some_and(|it| it > UNSEEN_PERCENT)
    };
    let findings = [
        told(
            &|host| host.lost_gaps > 0,
            "lost records that may have been gaps, and may have lost more time than shown",
        ),
        told(
            &unseen,
            "have CPUs that were not observed for more than 5\u{a0}% of the time, and time taken then is in no figure",
        ),
        told(
            &|host| host.incomplete > 0,
            "have a run that did not end in order, and the page has its data until then",
        ),
        told(
            &|host| host.lost_witnesses > 0,
            "lost events that name culprits, and these may have taken more time than shown",
        ),
    ];
    findings.into_iter().flatten().collect()
}

/// Returns the first names, and the number of other names.
fn named(names: &[&str]) -> String {
    let first = names[..names.len().min(TOLD)].join(", ");
    match names.len().checked_sub(TOLD) {
        None | Some(0) => first,
        Some(more) => format!("{first} and {} more", count(more as u64)),
    }
}

/// Returns sentences about the assumptions and limits of the page.
pub(super) fn limits(page: &FleetPage, fleet: &Fleet) -> Vec<String> {
    let mut limits = vec![format!(
        "A host stands out if it loses more than the upper quartile plus three times the distance of the quartiles, at \
         least {TIMES} times as much as the median host, and at least {LEAST_LOST}\u{a0}% of its time. It is compared with hosts \
         that were measured by the same workload with the same threshold, if there are at least {LEAST}. This is no test: \
         hosts that do other work lose other amounts, and may be in order."
    )];
    let thresholds = || fleet.hosts.iter().flat_map(|host| &host.looked);
    let thresholds = || thresholds().map(|(_, threshold_ns)| *threshold_ns);
    if let Some((least_ns, most_ns)) = thresholds().min().zip(thresholds().max()) {
        let below = match least_ns == most_ns {
            true => duration(least_ns),
            false => format!("{} to {} (by host)", duration(least_ns), duration(most_ns)),
        };
        limits.push(format!(
            "Gaps below {below} were not recorded, and are in no figure."
        ));
    }
    limits.push(
        "Runs of a host at different times are added up; hosts were not all recorded at the same time.".into(),
    );
    if !fleet.ranks.is_empty() {
        limits.push(
            "A rank shows the loss of its CPU. The last rank of a step is unknown, because hosts share no clock. \
             `vmnoise scale` predicts the cost of waiting for the slowest rank."
                .into(),
        );
    }
    let gapless = page.gapless_runs as u64;
    if gapless > 0 {
        limits.push(format!(
            "{} of wake-ups or exits are not on this page: use `vmnoise report` with their recordings.",
            times(gapless, "run", "runs")
        ));
    }
    if fleet.hosts.iter().any(|host| host.pauses) {
        limits.push(
            "If a run paused in each period, its parts are of the time in which it polled.".into(),
        );
    }
    limits
}
