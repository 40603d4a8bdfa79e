//! `chaos SECONDS [SEED]` runs every measuring command and causes one fault after the other. On a
//! real machine, it alternates between this machine and a lab. Inside a lab, it causes only the
//! faults for labs.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use vmnoise_testbed::chaos::{ChaosPlace, run, run_in_lab};

const USAGE: &str = "usage: chaos SECONDS [SEED]";
/// Time for faults on this machine before the program changes to a lab. A lab with its boot takes
/// some minutes.
const TURN: Duration = Duration::from_secs(60);
const TURN_IN_LAB: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().context(USAGE);
    let (seconds, seed) = match &arguments[..] {
        [seconds] => (number(seconds)?, fastrand::u64(..)),
        [seconds, seed] => (number(seconds)?, number(seed)?),
        _ => bail!(USAGE),
    };
    let length = Duration::from_secs(seconds);
    if ChaosPlace::here() == ChaosPlace::Lab {
        return run(seed, length).map(drop);
    }
    println!("to run this again: make chaos SECONDS={seconds} CHAOS_SEED={seed}");
    let begin = Instant::now();
    let mut seeds = seed..;
    while begin.elapsed() < length {
        let seed = seeds.next().context("no seed is left")?;
        let left = length.saturating_sub(begin.elapsed());
        run(seed, TURN.min(left))?;
        print!("{}", run_in_lab(seed, TURN_IN_LAB)?);
    }
    Ok(())
}
