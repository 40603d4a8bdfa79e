//! Analysis of the wake-up that stopped a run. It has the layout of `rtla timerlat`, with
//! additional lines for the hypervisor's time.

use vmnoise_console::as_rtla;
use vmnoise_events::{ActivityKind, Name, RunFacts, Share};
use vmnoise_explain::{NamedInterval, NamedPart, Phase};
use vmnoise_views::{CpusResult, RecentTrace};

use super::at_stop::{self, StackFormat};
use crate::tree::tree;

/// Delay of an interrupt on an idle CPU above which rtla names the exit from idle as the cause, in
/// nanoseconds.
const EXIT_FROM_IDLE_NS: u64 = 10_000;

/// Renders the report and an empty line; empty if no wake-up stopped the run. `stacks` is the
/// format of its kernel stack.
pub fn report(result: &CpusResult<'_>, stacks: StackFormat) -> String {
    let CpusResult {
        facts,
        summary,
        trace,
    } = *result;
    let wakeups = summary.wakeups.as_ref();
    let Some(late) = wakeups.and_then(|wakeups| wakeups.stopped_by.as_ref()) else {
        return String::new();
    };
    let mut out = format!("## CPU {} hit stop tracing, analyzing it ##\n", late.cpu);
    let was_idle = was_idle(facts, late, trace);
    let kept = trace.at_stop((late.start_mono_ns, late.cpu));
    let stack = kept.map_or_else(String::new, |kept| at_stop::stack(kept, stacks));
    out += &match until_irq(facts, late) {
        Some(irq_ns) => irq_analysis(late, irq_ns, was_idle, trace, &stack),
        None => thread_analysis(late, was_idle, trace, &stack),
    };
    let tasks = kept.map_or_else(String::new, at_stop::tasks);
    out + &tasks + &format!("\nStopped by this wake-up:\n{}\n", tree(late))
}

/// Returns the latency of the timer's interrupt, in nanoseconds. `None` if the thread hit its
/// limit, or if this latency is unknown.
fn until_irq(facts: &RunFacts, late: &NamedInterval) -> Option<u64> {
    let limit_ns = facts.options.timer.as_ref()?.stop_thread_ns;
    let irq_ns = late.irq_ns()?;
    let thread_hit = limit_ns.is_some_and(|limit_ns| late.dur_ns >= limit_ns);
    (!thread_hit).then_some(irq_ns)
}

fn irq_analysis(
    late: &NamedInterval,
    irq_ns: u64,
    was_idle: bool,
    trace: &RecentTrace,
    stack: &str,
) -> String {
    let mut out = previous_irq(late, trace) + &handler_delay(late, irq_ns, was_idle);
    out += &plain("IRQ latency:", 6, Some(irq_ns));
    if let Some(running) = running(late, trace) {
        out += "  Blocking thread:\n";
        let (comm, pid) = split(&running);
        out += &format!("\t{comm:>24}:{pid:<9}\n");
    }
    out += stack;
    let of_irq = |part: &&NamedPart| early(part.phase);
    let parts: Vec<_> = late.parts.iter().filter(of_irq).collect();
    out += &group("NMI interference", &parts, Share::Nmi, irq_ns);
    out + &total("IRQ latency:", irq_ns)
}

fn thread_analysis(
    late: &NamedInterval,
    was_idle: bool,
    trace: &RecentTrace,
    stack: &str,
) -> String {
    let total_ns = late.dur_ns;
    let mut out = previous_irq(late, trace) + &handler_delay(late, total_ns, was_idle);
    out += &plain("IRQ latency:", 6, late.irq_ns());
    let timer = timer_irq(late);
    let of_timer = |part: &&NamedPart| part.share == Share::Irq && part.source == timer;
    let timer_ns = late.parts.iter().filter(of_timer).map(|part| part.ns).sum();
    out += &match late.irq_ns() {
        Some(_) => shared("Timerlat IRQ duration:", 5, timer_ns, total_ns),
        None => plain("Timerlat IRQ duration:", 5, None),
    };
    let of_thread = |part: &&NamedPart| part.share == Share::Thread;
    let blocking = late.parts.iter().find(of_thread);
    let blocking = blocking.and_then(|part| part.source.clone());
    if let Some(blocking) = &blocking {
        let ns = sum(late, Share::Thread, |source| source == Some(blocking));
        out += &shared("Blocking thread:", 5, ns, total_ns);
        let (comm, pid) = split(blocking);
        out += &format!("\t{comm:>24}:{pid:<9}\t\t{:9.2} us\n", us(ns));
    }
    out += stack;
    let others = |part: &&NamedPart| {
        let taken = match part.share {
            Share::Irq => &timer,
            Share::Thread => &blocking,
            _ => &None,
        };
        taken.is_none() || part.source != *taken
    };
    let others: Vec<_> = late.parts.iter().filter(others).collect();
    for (title, share) in [
        ("NMI interference", Share::Nmi),
        ("IRQ interference", Share::Irq),
        ("Softirq interference", Share::Softirq),
        ("Thread interference", Share::Thread),
        ("Throttled", Share::Throttled),
    ] {
        out += &group(title, &others, share, total_ns);
    }
    // The line about the handler's delay already contains the parts before the interrupt.
    let later: Vec<_> = others
        .iter()
        .copied()
        .filter(|part| !early(part.phase))
        .collect();
    let ours = [
        ("Hypervisor (steal)", Share::Steal),
        ("Hypervisor or hardware", Share::HvOrHw),
        ("Unexplained", Share::Unexplained),
    ];
    let ours = ours.map(|(title, share)| group(title, &later, share, total_ns));
    let ours = ours.concat();
    let total = total("Thread latency:", total_ns);
    match as_rtla::prints_total_first() {
        true => out + &total + &ours,
        false => out + &ours + &total,
    }
}

/// Returns whether the phase ends at the timer's interrupt, or earlier.
fn early(phase: Option<Phase>) -> bool {
    matches!(phase, Some(Phase::ArmedLate | Phase::Irq))
}

/// Renders the delay of the interrupt's handler: the steal time and the residual until the
/// interrupt. Steal time has its own line, too.
fn handler_delay(late: &NamedInterval, total_ns: u64, was_idle: bool) -> String {
    if late.irq_ns().is_none() {
        return format!("  IRQ handler delay:\t\t{:>16}\t{:>9} us\n", "", "-");
    }
    let idle = |part: &&NamedPart| part.share == Share::Steal || part.share.is_residual();
    let parts = late
        .parts
        .iter()
        .filter(|part| early(part.phase))
        .filter(idle);
    let delay_ns: u64 = parts.clone().map(|part| part.ns).sum();
    let stolen = parts.filter(|part| part.share == Share::Steal);
    let stolen_ns: u64 = stolen.map(|part| part.ns).sum();
    let from_idle = match was_idle && delay_ns > EXIT_FROM_IDLE_NS {
        true => "(exit from idle)",
        false => "",
    };
    let mut out = format!(
        "  IRQ handler delay:\t\t{from_idle:>16}\t{:9.2} us ({:.2} %)\n",
        us(delay_ns),
        percent(delay_ns, total_ns)
    );
    if stolen_ns > 0 {
        out += &format!(
            "\t{:>24}    \t\t{:9.2} us\n",
            "hypervisor (steal)",
            us(stolen_ns)
        );
    }
    out
}

/// Returns whether the CPU idled at the expiry: the task slept, and no activity was seen.
fn was_idle(facts: &RunFacts, late: &NamedInterval, trace: &RecentTrace) -> bool {
    let armed_late = |part: &NamedPart| part.phase == Some(Phase::ArmedLate);
    let slept = late.irq_ns().is_some() && !late.parts.iter().any(armed_late);
    let nobody = trace.inside((late.start_mono_ns, late.cpu), 1).is_empty();
    slept && nobody && facts.witnesses.sched
}

/// Renders the interrupt that ran at the expiry and may have delayed the timer's interrupt; empty
/// if there was none.
fn previous_irq(late: &NamedInterval, trace: &RecentTrace) -> String {
    let noise = trace.inside((late.start_mono_ns, late.cpu), 1);
    let irq = noise.iter().find(|noise| noise.kind == ActivityKind::Irq);
    irq.map_or_else(String::new, |irq| {
        format!(
            "  Previous IRQ interference:\t\t\t up to  {:9.2} us\n",
            us(irq.net_ns)
        )
    })
}

/// Returns the thread that had the CPU at the expiry.
fn running(late: &NamedInterval, trace: &RecentTrace) -> Option<String> {
    let noise = trace.inside((late.start_mono_ns, late.cpu), 1);
    let thread = noise
        .iter()
        .find(|noise| noise.kind == ActivityKind::Thread)?;
    Some(thread.name.to_string())
}

/// Returns the interrupt that woke the task.
fn timer_irq(late: &NamedInterval) -> Option<Name> {
    let handler =
        |part: &&NamedPart| part.share == Share::Irq && matches!(part.phase, Some(Phase::Handler));
    late.parts.iter().find(handler)?.source.clone()
}

fn sum(late: &NamedInterval, share: Share, who: impl Fn(Option<&Name>) -> bool) -> u64 {
    let parts = late.parts.iter().filter(|part| part.share == share);
    let parts = parts.filter(|part| who(part.source.as_ref()));
    parts.map(|part| part.ns).sum()
}

/// Renders one kind of interference and its sources; empty if there was none.
fn group(title: &str, parts: &[&NamedPart], share: Share, total_ns: u64) -> String {
    let parts = parts.iter().filter(|part| part.share == share);
    let all_ns: u64 = parts.clone().map(|part| part.ns).sum();
    if all_ns == 0 {
        return String::new();
    }
    let mut out = shared(title, 5, all_ns, total_ns);
    let named = parts.filter_map(|part| Some((part.source.as_ref()?, part.ns)));
    for (source, ns) in named {
        let (name, number) = split(source);
        out += &format!("\t{name:>24}:{number:<3}\t\t\t{:9.2} us\n", us(ns));
    }
    out
}

fn plain(title: &str, tabs: usize, ns: Option<u64>) -> String {
    let value = match ns {
        Some(ns) => format!("{:9.2}", us(ns)),
        None => format!("{:>9}", "-"),
    };
    format!("  {title}{}{value} us\n", "\t".repeat(tabs))
}

fn shared(title: &str, tabs: usize, ns: u64, total_ns: u64) -> String {
    format!(
        "  {title}{}{:9.2} us ({:.2} %)\n",
        "\t".repeat(tabs),
        us(ns),
        percent(ns, total_ns)
    )
}

fn total(title: &str, ns: u64) -> String {
    format!(
        "{}\n  {title}\t\t\t\t\t{:9.2} us (100%)\n",
        "-".repeat(72),
        us(ns)
    )
}

/// Splits `comm:pid` at the last colon.
fn split(source: &str) -> (&str, &str) {
    source.rsplit_once(':').unwrap_or((source, ""))
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn percent(ns: u64, total_ns: u64) -> f64 {
    ns as f64 * 100.0 / total_ns.max(1) as f64
}
