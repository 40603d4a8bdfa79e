//! Lines of the trace in the format of the kernel's osnoise tracer
//! (include/trace/events/osnoise.h), so that existing parsers read them.

use vmnoise_events::{ActivityKind, MeasuringCommand};
use vmnoise_explain::{NamedPart, TraceContext, TraceLine, TraceNoise, TraceSample};

/// Returns the header that names the columns of a trace.
pub fn header(workload: MeasuringCommand) -> String {
    let command = match workload {
        MeasuringCommand::Timerlat => "timerlat",
        _ => "osnoise",
    };
    format!(
        "# tracer: vmnoise {command}, durations are net; times are CLOCK_MONOTONIC\n\
         # CPU    TIMESTAMP  EVENT\n"
    )
}

/// Returns the text of a line. A sample gets a second line with its budget. The text ends with a
/// newline.
pub fn render(line: &TraceLine) -> String {
    match line {
        TraceLine::Noise(noise) => self::noise(noise),
        TraceLine::Sample(sample) => {
            let prefixed = |text: &str| prefixed(line.cpu(), line.at_mono_ns(), text);
            prefixed(&self::sample(sample)) + &prefixed(&budget(sample))
        }
        TraceLine::Context(context) => prefixed(line.cpu(), line.at_mono_ns(), &timer(context)),
    }
}

/// Returns the line of an activity, with a newline at the end.
pub fn noise(noise: &TraceNoise) -> String {
    prefixed(noise.cpu, noise.end_mono_ns, &noise_event(noise))
}

/// Returns a line with ftrace's prefix: `[cpu]`, and the time in seconds, rounded to microseconds.
pub fn prefixed(cpu: u32, at_mono_ns: u64, text: &str) -> String {
    let us = at_mono_ns.saturating_add(500) / 1000;
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    format!("[{cpu:03}] {seconds:>5}.{us:06}: {text}\n")
}

/// Formats a time in seconds as the kernel's tracer does (`%llu.%09u`).
pub fn instant(mono_ns: u64) -> String {
    format!("{}.{:09}", mono_ns / 1_000_000_000, mono_ns % 1_000_000_000)
}

fn noise_event(noise: &TraceNoise) -> String {
    let time = span(noise.start_mono_ns, noise.net_ns);
    let TraceNoise { name, cpu, .. } = noise;
    match noise.kind {
        ActivityKind::Nmi => format!("nmi_noise: {time}"),
        ActivityKind::Irq => format!("irq_noise: {name} {time}"),
        ActivityKind::Softirq => format!("softirq_noise: {} {time}", padded(name)),
        // No task ran, although the workload was ready to run. The kernel's tracer shows this as a
        // run of the idle task.
        ActivityKind::Throttled => format!("thread_noise: swapper/{cpu}:0 {time}"),
        // The kernel's tracer has no event for a stop, because its threads cannot be stopped.
        ActivityKind::Stopped => format!("not_measured: stopped {time}"),
        _ => format!("thread_noise: {} {time}", padded(name)),
    }
}

/// Formats a context as the kernel's timerlat tracer does (kernel/trace/trace_output.c).
fn timer(context: &TraceContext) -> String {
    let TraceContext {
        number,
        name,
        latency_ns,
        ..
    } = context;
    format!("#{number:<5} context {name:>6} timer_latency {latency_ns:>9} ns")
}

fn sample(sample: &TraceSample) -> String {
    let time = span(sample.start_mono_ns, sample.dur_ns);
    format!(
        "sample_threshold: {time} interference {}",
        sample.interference
    )
}

fn budget(sample: &TraceSample) -> String {
    let parts: Vec<String> = sample
        .parts
        .iter()
        .map(|part| {
            let words = format!("{} ns {} {}", part.ns, part.share, who(part));
            words.trim_end().to_owned()
        })
        .collect();
    format!(
        "sample_budget: {} ns = {}",
        sample.dur_ns,
        parts.join(" + ")
    )
}

/// Returns the culprit of a part; empty if unknown.
pub fn who(part: &NamedPart) -> String {
    let times = match part.count {
        0 | 1 => String::new(),
        count => format!(" x{count}"),
    };
    let cpu = part.host_cpu.map(|cpu| format!("host CPU {cpu}"));
    match (&part.source, cpu) {
        (Some(name), Some(cpu)) => format!("{name}{times}, {cpu}"),
        (Some(name), None) => format!("{name}{times}"),
        (None, _) if part.share.is_residual() => "(residual)".into(),
        (None, cpu) => cpu.unwrap_or_default(),
    }
}

/// Formats `start %llu.%09u duration %llu ns`.
fn span(start_ns: u64, dur_ns: u64) -> String {
    format!("start {} duration {dur_ns} ns", instant(start_ns))
}

/// Formats a name such as `comm:pid` as `%8s:%d`.
fn padded(name: &str) -> String {
    match name.rsplit_once(':') {
        Some((name, number)) => format!("{name:>8}:{number}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::Share;
    use vmnoise_explain::NamedPart;

    use super::*;

    fn noise(kind: ActivityKind, name: &str) -> String {
        render(&TraceLine::Noise(TraceNoise {
            cpu: 8,
            kind,
            name: name.into(),
            start_mono_ns: 5_789_000_000_929,
            end_mono_ns: 5_789_000_003_500,
            net_ns: 1845,
        }))
    }

    #[test]
    fn lines_are_those_of_the_kernel() {
        let time = "start 5789.000000929 duration 1845 ns";
        for (kind, name, text) in [
            (ActivityKind::Nmi, "NMI", "nmi_noise:"),
            (
                ActivityKind::Irq,
                "local_timer:236",
                "irq_noise: local_timer:236",
            ),
            (ActivityKind::Softirq, "RCU:9", "softirq_noise:      RCU:9"),
            (ActivityKind::Thread, "sh:7", "thread_noise:       sh:7"),
            (ActivityKind::Thread, "a:b:7", "thread_noise:      a:b:7"),
            (ActivityKind::Throttled, "idle", "thread_noise: swapper/8:0"),
        ] {
            let expected = format!("[008]  5789.000004: {text} {time}\n");
            assert_eq!(noise(kind, name), expected);
        }
    }

    #[test]
    fn a_sample_is_followed_by_its_budget() {
        let part = |share, source: Option<&str>, ns, count| NamedPart {
            phase: None,
            host_cpu: None,
            share,
            source: source.map(str::to_owned).map(Into::into),
            ns,
            count,
        };
        let sample = TraceSample {
            cpu: 16,
            start_mono_ns: 2_000_000_000,
            dur_ns: 50_946,
            interference: 3,
            over_mono_ns: 2_000_050_946,
            parts: vec![
                part(Share::Thread, Some("ksoftirqd/16:129"), 45_816, 1),
                part(Share::Irq, Some("eno1:62"), 4_204, 2),
                part(Share::Steal, None, 900, 0),
                part(Share::HvOrHw, None, 26, 0),
            ],
        };
        assert_eq!(
            render(&TraceLine::Sample(sample)),
            "[016]     2.000051: sample_threshold: start 2.000000000 duration 50946 ns interference 3\n\
             [016]     2.000051: sample_budget: 50946 ns = 45816 ns thread ksoftirqd/16:129 \
             + 4204 ns irq eno1:62 x2 + 900 ns steal + 26 ns hv_or_hw (residual)\n"
        );
    }
}
