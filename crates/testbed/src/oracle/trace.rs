//! Reads the trace of the kernel's osnoise tracer (include/trace/events/osnoise.h). The trace of
//! `vmnoise` has the same lines.

use anyhow::{Context, Result, bail, ensure};

/// Kind of an event of the group `osnoise`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OsnoiseEventKind {
    /// `nmi_noise`: an NMI.
    Nmi,
    /// `irq_noise`: an interrupt.
    Irq,
    /// `softirq_noise`: a softirq.
    Softirq,
    /// `thread_noise`: a thread.
    Thread,
    /// `sample_threshold`: a gap.
    Sample,
}

impl OsnoiseEventKind {
    /// All kinds.
    pub const ALL: [OsnoiseEventKind; 5] = [
        OsnoiseEventKind::Nmi,
        OsnoiseEventKind::Irq,
        OsnoiseEventKind::Softirq,
        OsnoiseEventKind::Thread,
        OsnoiseEventKind::Sample,
    ];

    /// All kinds except gaps.
    pub const NOISE: [OsnoiseEventKind; 4] = [
        OsnoiseEventKind::Nmi,
        OsnoiseEventKind::Irq,
        OsnoiseEventKind::Softirq,
        OsnoiseEventKind::Thread,
    ];

    /// Returns the name of the event in a trace.
    pub const fn event(self) -> &'static str {
        match self {
            OsnoiseEventKind::Nmi => "nmi_noise",
            OsnoiseEventKind::Irq => "irq_noise",
            OsnoiseEventKind::Softirq => "softirq_noise",
            OsnoiseEventKind::Thread => "thread_noise",
            OsnoiseEventKind::Sample => "sample_threshold",
        }
    }
}

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsnoiseLine {
    /// Kind of event.
    pub kind: OsnoiseEventKind,
    /// Name such as `local_timer:236` or `comm:pid`; empty for events without a name.
    pub name: String,
    /// Time at which the event had ended and the line was written, by the clock of the trace,
    /// nanoseconds. The resolution is 1 us.
    pub at_ns: u64,
    /// Start of the event by the clock of the tracer, nanoseconds.
    pub start_ns: u64,
    /// Net duration of the event, nanoseconds; for a gap, its length.
    pub dur_ns: u64,
}

/// Returns the lines of all osnoise events in a trace, in the order of their starts.
///
/// # Errors
/// If the trace has lost events, or a line of these events cannot be read.
pub fn lines(trace: &str) -> Result<Vec<OsnoiseLine>> {
    let mut lines = Vec::new();
    for text in trace.lines() {
        ensure!(!text.contains(" EVENTS]"), "the trace is not whole: {text}");
        for kind in OsnoiseEventKind::ALL {
            if let Some((before, after)) = text.split_once(&format!(": {}: ", kind.event())) {
                let line = line(kind, before, after);
                lines.push(line.with_context(|| format!("a line of the trace: {text}"))?);
                break;
            }
        }
    }
    lines.sort_by_key(|line| (line.start_ns, line.kind));
    Ok(lines)
}

fn line(kind: OsnoiseEventKind, before: &str, after: &str) -> Result<OsnoiseLine> {
    // An NMI and a gap have no name before `start`.
    let (name, times) = match after.strip_prefix("start ") {
        Some(times) => ("", times),
        None => after.rsplit_once(" start ").context("no start")?,
    };
    let [start, "duration", duration, "ns", ..] = times.split(' ').collect::<Vec<_>>()[..] else {
        bail!("no duration");
    };
    Ok(OsnoiseLine {
        kind,
        name: name.trim().to_owned(),
        at_ns: timestamp_ns(before)?,
        start_ns: seconds_ns(start)?,
        dur_ns: duration.parse()?,
    })
}

/// Returns the time in an ftrace line whose times are in seconds, in nanoseconds. `before` is the
/// text before the event.
///
/// # Errors
/// If the text contains no time.
pub fn timestamp_ns(before: &str) -> Result<u64> {
    seconds_ns(before.rsplit(' ').next().unwrap_or_default())
}

/// Converts seconds such as `12.345678901` or `12.345678` to nanoseconds.
pub(super) fn seconds_ns(text: &str) -> Result<u64> {
    let (seconds, fraction) = text.split_once('.').context("a time without a point")?;
    let digits = u32::try_from(fraction.len())?;
    let unit = 9_u32.checked_sub(digits).context("a time below ns")?;
    Ok(seconds.parse::<u64>()? * 1_000_000_000 + fraction.parse::<u64>()? * 10_u64.pow(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "\
# tracer: osnoise
       osnoise/0-92      [000] d..h1..     3.164203: irq_noise: local_timer:236 start 3.164199883 duration 2997 ns
       osnoise/0-92      [000] d...3..     3.168206: thread_noise:     a b:c:95 start 3.161681716 duration 6518165 ns
       osnoise/0-92      [000] .......     3.168208: sample_threshold: start 3.160199616 duration 8007851 ns interference 8
       osnoise/0-92      [000] .......     4.168208: 1000000        858  99.91420       17      0      0    250      0     22
";

    #[test]
    fn lines_of_the_kernel_are_read_in_the_order_of_their_begins() {
        let line = |kind, name: &str, at_us: u64, start_ns, dur_ns| OsnoiseLine {
            kind,
            name: name.into(),
            at_ns: at_us * 1000,
            start_ns,
            dur_ns,
        };
        let expected = [
            line(
                OsnoiseEventKind::Sample,
                "",
                3_168_208,
                3_160_199_616,
                8_007_851,
            ),
            line(
                OsnoiseEventKind::Thread,
                "a b:c:95",
                3_168_206,
                3_161_681_716,
                6_518_165,
            ),
            line(
                OsnoiseEventKind::Irq,
                "local_timer:236",
                3_164_203,
                3_164_199_883,
                2_997,
            ),
        ];
        assert_eq!(lines(KERNEL).unwrap(), expected);
    }

    #[test]
    fn ours_are_the_same_lines() {
        let ours = "[008]  5789.000004: nmi_noise: start 5789.000000929 duration 1845 ns\n";
        let expected = OsnoiseLine {
            kind: OsnoiseEventKind::Nmi,
            name: String::new(),
            at_ns: 5_789_000_004_000,
            start_ns: 5_789_000_000_929,
            dur_ns: 1845,
        };
        assert_eq!(lines(ours).unwrap(), [expected]);
    }

    #[test]
    fn a_trace_with_holes_is_none() {
        let error = lines("CPU:0 [LOST 12 EVENTS]\n").unwrap_err();
        assert!(error.to_string().contains("not whole"), "{error}");
        assert!(lines("[000] 1.5: nmi_noise: start 2 duration 1 ns").is_err());
    }
}
