//! The options of `vmnoise scale`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vmnoise_console::units::Bare;
use vmnoise_render::format::Format;

use super::times::{MS, within};

const EXAMPLES: &str = "\
Examples:
  vmnoise osnoise -d 10m -o node.vmn                       all CPUs of this node
  vmnoise scale node.vmn --step 1ms                        up to a million ranks
  vmnoise scale node.vmn --ranks 4096 --step 250us --collective allreduce
  vmnoise scale node*.vmn --ranks 1..65536 --format json
  vmnoise scale fleet/                                     the hosts of a data set (`vmnoise export --parquet fleet`)";

/// Largest number of ranks that can be predicted.
const MOST_RANKS: u64 = 1_000_000_000;

/// `vmnoise scale`: a program whose ranks wait for the slowest, and the noise of its hosts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScaleArguments {
    /// Recordings of `osnoise` or `microvm`, one per host, or a data set
    ///
    /// Recordings are made with `-o`; a data set is a folder of `vmnoise export --parquet`. Ranks
    /// run on the CPUs that were measured.
    #[arg(required = true)]
    pub recordings: Vec<PathBuf>,
    /// Predict for these numbers of ranks: 4096, 64,4096 or 1..1000000
    ///
    /// A range means its two ends, and every power of two between them.
    #[arg(long, value_name = "RANKS", default_value = "1..1000000", value_parser = ranks)]
    pub ranks: Ranks,
    /// Set the CPU time that each rank needs per step (us if no unit)
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = step)]
    pub step: u64,
    /// Set how the ranks synchronize at the end of a step
    #[arg(long, value_enum, default_value_t = CollectiveName::Barrier)]
    pub collective: CollectiveName,
    /// Set each rank's CPU time per round of allreduce (us if no unit)
    ///
    /// An allreduce has log2(RANKS) rounds.
    #[arg(long, value_name = "TIME", default_value = "2us", value_parser = round)]
    pub round: u64,
    /// Assume that all hosts lose time at the same moments
    ///
    /// This models hosts that one clock interrupts together. Without this option, hosts are
    /// independent of each other.
    #[arg(long)]
    pub co_scheduled: bool,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Method by which the ranks synchronize at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CollectiveName {
    /// All ranks wait for the last one
    Barrier,
    /// Recursive doubling: in each round, ranks exchange data in pairs
    Allreduce,
}

/// Numbers of ranks, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks(pub Vec<u64>);

fn step(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 1_000, 3_600_000 * MS, "1us to 1h")
}

fn round(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 100, 1_000 * MS, "100ns to 1s")
}

fn ranks(text: &str) -> Result<Ranks, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => all.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(format!("{part} ends before it begins"));
                }
                let doublings = (0..).map_while(|nth| 1_u64.checked_shl(nth));
                let between = doublings.take_while(|it| *it < last);
                all.extend(between.filter(|it| *it > first));
                all.extend([first, last]);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(Ranks(all))
}

fn number(text: &str) -> Result<u64, String> {
    let number = text.trim().parse();
    let number = number.ok().filter(|it| (1..=MOST_RANKS).contains(it));
    number.ok_or_else(|| {
        format!("`{text}` is no number of ranks from 1 to {MOST_RANKS}; write 4096, 64,4096 or 1..1000000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_lists_and_doublings() {
        let read = |text| ranks(text).map(|it| it.0);
        assert_eq!(read("4096"), Ok(vec![4096]));
        assert_eq!(read("64,8,64"), Ok(vec![8, 64]));
        assert_eq!(read("3..20"), Ok(vec![3, 4, 8, 16, 20]));
        assert_eq!(read("8..8,1"), Ok(vec![1, 8]));
        assert_eq!(read("1..1000000").map(|it| it.len()), Ok(21));
    }

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        for text in ["", "0", "-1", "1..", "8..1", "1e6", "2000000000", "a,b"] {
            let error = ranks(text).unwrap_err();
            assert!(
                error.contains("write 4096") || error.contains("before"),
                "{error}"
            );
        }
        assert!(step("0").is_err() && step("1 parsec").is_err() && round("0").is_err());
    }
}
