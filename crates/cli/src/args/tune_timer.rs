//! The options of `vmnoise tune-timer`.

use clap::Args;
use vmnoise_events::Policy;

use super::priority;
use super::times::{duration, timer_interval};
use crate::output::format::Format;
use crate::units::{Bare, parse_time};

const EXAMPLES: &str = "\
Examples:
  vmnoise tune-timer                      what each setting of halt polling gives and costs
  vmnoise tune-timer --goal 20us          and which keeps 99.9 % of timers within 20 us at the least cost
  vmnoise tune-timer -c 3 -i 100us --goal 20us --percentile 99.99 -d 5m

Nothing is set: the guests are our own, and each has a limit of its own.

Exit status: 0 ok, 1 error, 2 no setting keeps the goal, 3 nobody can tell yet, or this machine cannot, 129 usage";

/// `vmnoise tune-timer`: how late the timers of a guest are, by setting of halt polling.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneTimerArguments {
    /// The CPU to measure on [default: the last CPU this process may use]
    #[arg(short, long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// How long to measure, all settings together; a number alone is in seconds
    #[arg(short, long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub duration: u64,
    /// How far ahead the guest arms each timer, as yours does; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = timer_interval)]
    pub interval: u64,
    /// How late timers may be; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub goal: Option<u64>,
    /// Of 100 timers so many are to be no later than the goal
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = percentile)]
    pub percentile: f64,
    /// Policy of the vCPU's thread: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD [default: as inherited]
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority::parse)]
    pub priority: Option<Policy>,
    /// How to print the result
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
        .ok_or_else(|| {
            format!("{text} is outside 50 to 100, and 100 is no percentile: write 99.9, say")
        })
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
