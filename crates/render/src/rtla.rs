//! Formats of rtla, so that scripts written for rtla can read our output.

use std::time::Duration;

use vmnoise_console::as_rtla;
use vmnoise_events::FinishReason;
use vmnoise_explain::Summary;

/// Formats a duration as `%3d %02d:%02d:%02d`: days, hours, minutes and seconds.
pub fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3600 % 24);
    format!(
        "{:>3} {hours:02}:{minutes:02}:{:02}",
        seconds / 86_400,
        seconds % 60
    )
}

/// Formats the column `% CPU Aval` as rtla does: with integer arithmetic on whole microseconds, and
/// five decimals.
pub fn available(runtime_us: u64, noise_us: u64) -> String {
    let left_us = u128::from(runtime_us.saturating_sub(noise_us));
    let parts = (left_us * 10_000_000)
        .checked_div(u128::from(runtime_us))
        .unwrap_or(0);
    format!("{:>3}.{:05}", parts / 100_000, parts % 100_000)
}

/// Returns the measured time of the CPU that was measured longest, plus half a second.
pub fn measured(summary: &Summary) -> Duration {
    let longest = summary.cpus.iter().filter_map(|cpu| cpu.runtime_ns).max();
    // rtla prints whole seconds. With the half second, `clock` rounds to the nearest second.
    Duration::from_nanos(longest.unwrap_or(0).saturating_add(500_000_000))
}

/// Returns the line that rtla prints after its table if a limit ended the run. The line is empty if
/// vmnoise was not called as rtla.
pub fn hit(summary: &Summary, tracer: &str) -> String {
    match summary.finish_reason == Some(FinishReason::Stop) && as_rtla::prints_hit() {
        true => format!("rtla {tracer} hit stop tracing\n"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn availability_is_truncated_as_rtla_does() {
        assert_eq!(available(1_000_000, 190), " 99.98100");
        assert_eq!(available(1_000_000, 0), "100.00000");
        assert_eq!(available(3, 1), " 66.66666");
        assert_eq!(available(0, 0), "  0.00000");
    }
}
