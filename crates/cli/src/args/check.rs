//! The options of `vmnoise check`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_console::units::{Bare, parse_time};
use vmnoise_judge::check::{Quantity, Requirement};
use vmnoise_render::format::CheckFormat;

use super::budget;
use super::times::duration;

const EXAMPLES: &str = "\
Examples:
  vmnoise osnoise -c 3 -d 10m -o run.vmn
  vmnoise check run.vmn --max 40us --p99.9 20us
  vmnoise check run.vmn --limit 'gaps>20us=5'              at most 5 a second, on each CPU
  vmnoise check run.vmn --limit 'steal=0.1%' --limit 'thread by kworker*=0.01%'
  vmnoise check guest.vmn host.vmn --limit 'preempted by qemu*=0%'
  vmnoise check run.vmn --budget budget.yaml --format junit > verdict.xml

Exit status: 0 PASS or WARN, 1 error, 2 FAIL, 3 CANNOT TELL, 129 usage";

/// `vmnoise check`: a recording, and the limits that it must keep.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArguments {
    /// Recording of `microvm`, `osnoise` or `timerlat`, made with `-o`
    pub recording: PathBuf,
    /// Recording of the guest's host, made meanwhile with `vmnoise exits -o`
    ///
    /// This recording shows who on the host took the guest's time.
    pub host: Option<PathBuf>,
    /// Limit the longest gap, or the largest wake-up latency
    ///
    /// Times take a unit: ns, us, ms, s, m, h or d. Without one, --duration is in seconds and all
    /// others are in microseconds.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub max: Option<u64>,
    /// Limit the 99th percentile of gap lengths or wake-up latencies
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub p99: Option<u64>,
    /// Limit the 99.9th percentile
    #[arg(long = "p99.9", value_name = "TIME", value_parser = time)]
    pub p999: Option<u64>,
    /// Limit the 99.99th percentile
    #[arg(long = "p99.99", value_name = "TIME", value_parser = time)]
    pub p9999: Option<u64>,
    /// Limit the 99.999th percentile
    #[arg(long = "p99.999", value_name = "TIME", value_parser = time)]
    pub p99999: Option<u64>,
    /// Limit another figure, such as noise=1%; may be given several times
    ///
    /// A figure: `noise=1%`, `gaps=100`, `gaps>20us=5`, `p50=2us`. A share: `steal=0.1%`. A
    /// culprit: `by kworker*=0.1%`. A culprit within a share: `preempted by qemu-*=0%`.
    #[arg(long, value_name = "FIGURE=LIMIT", value_parser = budget::parse)]
    pub limit: Vec<Requirement>,
    /// Require that the run is at least this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<u64>,
    /// Read limits from this YAML or JSON file; options take precedence
    ///
    /// The file may be the ConfigMap of KubeVirt's realtime checkup.
    #[arg(long, value_name = "FILE")]
    pub budget: Option<PathBuf>,
    /// Read limits from the environment variables of the CNF latency tests
    ///
    /// MAXIMUM_LATENCY, OSLAT_MAXIMUM_LATENCY (gaps), CYCLICTEST_MAXIMUM_LATENCY (wake-ups) and
    /// LATENCY_TEST_RUNTIME.
    #[arg(long)]
    pub cnf: bool,
    /// Print the verdict in this format
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub format: CheckFormat,
}

impl CheckArguments {
    /// Returns the limits that options set: first the times, then each `--limit`.
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
