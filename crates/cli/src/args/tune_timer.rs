//! The options of `vmnoise tune-timer`.

use clap::Args;
use vmnoise_console::units::{Bare, parse_time};
use vmnoise_events::Policy;
use vmnoise_render::format::Format;

use super::priority;
use super::times::{duration, timer_interval};

const EXAMPLES: &str = "\
Examples:
  vmnoise tune-timer                      timer latency and cost of each halt polling setting
  vmnoise tune-timer --goal 20us          the cheapest that keeps 99.9 % of timers within 20 us
  vmnoise tune-timer -c 3 -i 100us --goal 20us --percentile 99.99 -d 5m

No setting of this machine changes: each limit applies only to a guest of vmnoise's own.

Exit status: 0 ok, 1 error, 2 no setting keeps the goal, 3 cannot tell yet, or this machine cannot,
129 usage";

/// `vmnoise tune-timer`: a guest's timers, and the goal that they must keep.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneTimerArguments {
    /// Measure on this CPU [default: the last allowed CPU]
    #[arg(short, long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Measure for this long in all, divided among the settings
    ///
    /// Times take a unit: ns, us, ms, s, m, h or d. Without one, --duration is in seconds and all
    /// others are in microseconds.
    #[arg(short, long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub duration: u64,
    /// Let the guest set each timer this far ahead, as your guest does
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = timer_interval)]
    pub interval: u64,
    /// Find the cheapest setting with which timers are at most this late
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub goal: Option<u64>,
    /// Require that this percentage of timers keeps the goal
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = percentile)]
    pub percentile: f64,
    /// Set the policy of the vCPU's thread, such as f:95 [default: inherited]
    ///
    /// o:NICE is SCHED_OTHER, f:PRIORITY is SCHED_FIFO, r:PRIORITY is SCHED_RR and d:RUNTIME:PERIOD
    /// is SCHED_DEADLINE.
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority::parse)]
    pub priority: Option<Policy>,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

fn time(text: &str) -> Result<u64, String> {
    parse_time(text, Bare::Microseconds)
}

fn percentile(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok();
    percent
        .filter(|it| (50.0..100.0).contains(it))
        .ok_or_else(|| format!("{text} is not from 50 to below 100; write 99.9, for example"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_between_half_and_all() {
        assert_eq!(percentile("99.9"), Ok(99.9));
        for text in ["100", "49.9", "nan", "-1", "x"] {
            assert!(percentile(text).is_err(), "{text}");
        }
    }
}
