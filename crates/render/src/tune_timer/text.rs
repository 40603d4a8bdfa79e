//! Result of `tune-timer` as text: a table of settings, then the recommendation.

use std::collections::BTreeSet;
use std::fmt::Write;

use vmnoise_console::units::rough;
use vmnoise_events::human;
use vmnoise_host::LapicTimerAdvance;
use vmnoise_judge::tuning::Keeps;

use super::step::PollingStep;
use super::{TuneTimerDocument, TuningRequest};
use crate::{caveats, table};

const PARAMETER: &str = "/sys/module/kvm/parameters/halt_poll_ns";

pub fn render(document: &TuneTimerDocument<'_>) -> String {
    let asked = &document.options;
    let mut text = format!(
        "Lateness of a guest's timers on CPU {}, set {} ahead, for each limit of KVM's halt polling\n\n",
        asked.cpu,
        human(asked.interval_ns)
    );
    let goal = asked
        .goal_ns
        .map(|goal_ns| format!("within {}", human(goal_ns)));
    let of_percentile = format!("p{}", asked.percentile);
    text += &table::of(&document.steps, |it| {
        let it = it
            .figure("halt_poll_ns", |step: &PollingStep| setting(step))
            .count("timers", |step| step.timers)
            .count("early", |step| step.early)
            .time("min late", |step| step.late_ns.map(|late| late.min))
            .time("median", |step| step.late_ns.map(|late| late.p50))
            .time(of_percentile, |step| {
                step.late_ns.map(|late| late.percentile)
            })
            .time("max", |step| step.late_ns.map(|late| late.max))
            .percent("busy %", |step| step.busy_percent)
            .percent("polled %", |step| step.polled_percent)
            .percent("in time %", in_time_percent);
        match goal {
            Some(goal) => it.figure(goal, |step| keeps(step).to_owned()),
            None => it,
        }
    });
    text.push('\n');
    for line in [polling(document), goal_line(document)]
        .into_iter()
        .flatten()
    {
        text += &line;
        text.push('\n');
    }
    text += &advance(document);
    text.push('\n');
    text += &witnesses(document);
    text.push('\n');
    text + &not_seen(document)
}

/// Returns the blind spots of all settings, each once.
fn not_seen(document: &TuneTimerDocument<'_>) -> String {
    let steps = document.steps.iter();
    let texts: BTreeSet<String> = steps
        .map(|step| caveats::not_seen(&step.blind_spots))
        .collect();
    texts.into_iter().collect()
}

fn setting(step: &PollingStep) -> String {
    let limit = step
        .halt_poll_ns
        .map_or("-".to_owned(), |it| it.to_string());
    match step.present {
        true => format!("now {limit}"),
        false => limit,
    }
}

/// Returns the part of KVM's polls that ended a halt, in percent.
fn in_time_percent(step: &PollingStep) -> Option<f64> {
    let (in_time, polls) = (step.kvm.polls_in_time?, step.kvm.polls?);
    (polls > 0).then(|| in_time as f64 / polls as f64 * 100.0)
}

fn keeps(step: &PollingStep) -> &'static str {
    match step.keeps_goal {
        Some(Keeps::Yes) => "yes",
        Some(Keeps::No) => "no",
        Some(Keeps::Open { .. }) => "?",
        None => "-",
    }
}

/// Returns a line if KVM cannot limit polling for one VM, or if KVM gave up all polls.
fn polling(document: &TuneTimerDocument<'_>) -> Option<String> {
    if !document.present.can_limit_halt_poll {
        return Some(
            "Only the present setting is measured: this KVM has no limit for one VM; use Linux 5.8 or newer"
                .into(),
        );
    }
    let longest = document.steps.last()?;
    let (polls, in_time) = (longest.kvm.polls?, longest.kvm.polls_in_time?);
    let mean_ns = longest.kvm.polled_ns?.checked_div(polls)?;
    // A poll that ends no halt lasts at least this long, unless KVM gives it up.
    let first_step_ns = document.present.halt_poll_ns_grow_start?;
    let gave_up = in_time == 0 && mean_ns < first_step_ns && longest.halt_poll_ns? >= first_step_ns;
    gave_up.then(|| {
        format!(
            "No halt ended while KVM polled: KVM gave up after {} on average, as it does if another task can use the CPU",
            human(mean_ns)
        )
    })
}

fn goal_line(document: &TuneTimerDocument<'_>) -> Option<String> {
    let asked = &document.options;
    let goal = format!(
        "{} % of timers within {}",
        asked.percentile,
        human(asked.goal_ns?)
    );
    let Some(chosen) = document.setting.map(|place| &document.steps[place]) else {
        return Some(nothing_keeps(document, &goal));
    };
    let limit = chosen
        .halt_poll_ns
        .map_or("-".to_owned(), |it| it.to_string());
    let busy = chosen
        .busy_percent
        .map_or("-".into(), |it| format!("{it:.1}"));
    let mut line = format!(
        "Setting: halt_poll_ns={limit} keeps {goal}, and the vCPU takes {busy} % of its CPU"
    );
    match (chosen.present, chosen.halt_poll_ns) {
        (true, _) => {
            line +=
                "; it is the present setting, and no other that keeps the goal is certainly cheaper"
        }
        (false, Some(limit_ns)) => {
            let _ = write!(
                line,
                "\n  echo {limit_ns} > {PARAMETER}    # for VMs that start from now on; newer kernels: for running ones too"
            );
            if let Some(now_ns) = document.present.halt_poll_ns {
                let _ = write!(line, "\n  echo {now_ns} > {PARAMETER}    # undoes it");
            }
        }
        (false, None) => {}
    }
    Some(line)
}

fn nothing_keeps(document: &TuneTimerDocument<'_>, goal: &str) -> String {
    let steps = &document.steps;
    let open = steps.iter().filter_map(|step| match step.keeps_goal {
        Some(Keeps::Open { needed }) => Some(needed_ns(step, needed, &document.options)),
        _ => None,
    });
    let open: Vec<Option<u64>> = open.collect();
    if open.is_empty() {
        return format!("FAIL: no setting keeps {goal}; `vmnoise microvm` shows who takes the CPU");
    }
    let (count, of) = (open.len(), steps.len());
    // Length of the shortest run that decides about an open setting.
    match open.into_iter().flatten().min() {
        Some(needed_ns) => format!(
            "CANNOT TELL: no setting certainly keeps {goal}, but {count} of {of} may; measure for about {} (-d)",
            rough(std::time::Duration::from_nanos(needed_ns))
        ),
        None => format!(
            "CANNOT TELL: no setting certainly keeps {goal}, but {count} of {of} may; measure for longer (-d)"
        ),
    }
}

/// Returns the duration of a run in which this setting has `needed` timers, in nanoseconds.
fn needed_ns(step: &PollingStep, needed: Option<u64>, asked: &TuningRequest) -> Option<u64> {
    let times = needed? as f64 / step.timers.max(1) as f64;
    Some((asked.duration_ns as f64 * times) as u64)
}

/// Returns a line about KVM's timer advance: its present setting, and how early or late the timers
/// came.
fn advance(document: &TuneTimerDocument<'_>) -> String {
    let early: u64 = document.steps.iter().map(|step| step.early).sum();
    let earliest_ns = document
        .steps
        .iter()
        .filter_map(|step| step.earliest_ns)
        .max();
    let least_ns = document
        .steps
        .iter()
        .filter_map(|step| Some(step.late_ns?.min))
        .min();
    let seen = match (earliest_ns, least_ns) {
        (Some(earliest_ns), _) => match early {
            1 => format!("one timer came early, by {}", human(earliest_ns)),
            _ => format!("{early} timers came early, by up to {}", human(earliest_ns)),
        },
        (None, Some(least_ns)) => format!(
            "no timer came early, all were at least {} late",
            human(least_ns)
        ),
        (None, None) => "no timer came".into(),
    };
    let how = match document.present.lapic_timer_advance {
        None => "unknown (lapic_timer_advance cannot be read)".into(),
        Some(LapicTimerAdvance::Off) => "off (lapic_timer_advance): KVM fires timers when they are due; load kvm with lapic_timer_advance=1 (before Linux 6.10 with lapic_timer_advance_ns=-1), and measure again".into(),
        Some(LapicTimerAdvance::Fixed(ns)) => format!("{} (lapic_timer_advance_ns), set by hand", human(ns)),
        Some(LapicTimerAdvance::Adaptive) => match document.present.vcpu_advance_ns {
            Some(ns) => format!("adaptive (lapic_timer_advance), {} at the end of the run", human(ns)),
            None => "adaptive (lapic_timer_advance); its length is unknown, because debugfs cannot be read".to_owned(),
        },
    };
    format!("Timer advance: {how}; {seen}")
}

fn witnesses(document: &TuneTimerDocument<'_>) -> String {
    let with = |answer| {
        let steps = document
            .steps
            .iter()
            .filter(move |step| step.witnesses_agree == answer);
        steps.map(setting).collect::<Vec<_>>().join(", ")
    };
    let (no, unknown) = (with(Some(false)), with(None));
    match (no.is_empty(), unknown.is_empty()) {
        (false, _) => format!(
            "Check: with halt_poll_ns {no} the costs of halts by KVM and by the scheduler contradict each other: do not trust these costs"
        ),
        (true, false) => {
            format!(
                "Check: with halt_poll_ns {unknown} the costs of halts come from one source and could not be checked"
            )
        }
        (true, true) => "Check: the costs of halts by KVM and by the scheduler agree".into(),
    }
}
