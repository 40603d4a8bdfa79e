//! The options of `vmnoise check`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_judge::check::{Quantity, Requirement};

use super::budget;
use super::times::duration;
use crate::output::format::CheckFormat;
use crate::units::{Bare, parse_time};

const EXAMPLES: &str = "\
Examples:
  vmnoise osnoise -c 3 -d 10m -o run.vmn
  vmnoise check run.vmn --max 40us --p99.9 20us
  vmnoise check run.vmn --limit 'gaps>20us=5'              at most 5 a second, on each CPU
  vmnoise check run.vmn --limit 'steal=0.1%' --limit 'thread by kworker*=0.01%'
  vmnoise check guest.vmn host.vmn --limit 'preempted by qemu*=0%'
  vmnoise check run.vmn --budget budget.yaml --format junit > verdict.xml

Exit status: 0 PASS or WARN, 1 error, 2 FAIL, 3 CANNOT TELL, 129 usage";

/// `vmnoise check`: a recording, and what it may have at most.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArguments {
    /// A recording of `microvm`, `osnoise` or `timerlat` (with `-o`)
    pub recording: PathBuf,
    /// The recording of its host (`vmnoise exits -o`) of the same time, if the first one is of a guest: what the host took
    /// has its names then
    pub host: Option<PathBuf>,
    /// The longest gap, or the latest wake-up, is no longer than this
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub max: Option<u64>,
    /// Of 100 gaps or wake-ups, 99 are no longer than this
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub p99: Option<u64>,
    /// Of 1,000, 999 are no longer than this
    #[arg(long = "p99.9", value_name = "TIME", value_parser = time)]
    pub p999: Option<u64>,
    /// Of 10,000, 9,999 are no longer than this
    #[arg(long = "p99.99", value_name = "TIME", value_parser = time)]
    pub p9999: Option<u64>,
    /// Of 100,000, 99,999 are no longer than this
    #[arg(long = "p99.999", value_name = "TIME", value_parser = time)]
    pub p99999: Option<u64>,
    /// No more than this of anything else: `noise=1%`, `gaps=100`, `gaps>20us=5`, `p50=2us`, a share (`steal=0.1%`), who
    /// took it (`by kworker*=0.1%`), or both (`preempted by qemu-*=0%`). May be given several times
    #[arg(long, value_name = "FIGURE=LIMIT", value_parser = budget::parse)]
    pub limit: Vec<Requirement>,
    /// The run is at least so long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<u64>,
    /// Limits in a file: YAML or JSON, or the ConfigMap of KubeVirt's realtime checkup. What the command line limits as
    /// well counts instead
    #[arg(long, value_name = "FILE")]
    pub budget: Option<PathBuf>,
    /// Take limits from the environment of the CNF latency tests: MAXIMUM_LATENCY, OSLAT_MAXIMUM_LATENCY (gaps),
    /// CYCLICTEST_MAXIMUM_LATENCY (wake-ups), LATENCY_TEST_RUNTIME
    #[arg(long)]
    pub cnf: bool,
    /// How to print the verdict
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub format: CheckFormat,
}

impl CheckArguments {
    /// What the command line itself limits, in the order of its options.
    pub fn requirements(&self) -> Vec<Requirement> {
        let times = [
            (Quantity::Max, self.max),
            (Quantity::Percentile(99_000), self.p99),
            (Quantity::Percentile(99_900), self.p999),
            (Quantity::Percentile(99_990), self.p9999),
            (Quantity::Percentile(99_999), self.p99999),
        ];
        let times = times.into_iter().filter_map(|(quantity, limit_ns)| {
            Some(Requirement {
                quantity,
                at_most: limit_ns? as f64,
                warn_above: None,
            })
        });
        times.chain(self.limit.iter().cloned()).collect()
    }
}

fn time(text: &str) -> Result<u64, String> {
    parse_time(text, Bare::Microseconds)
}
