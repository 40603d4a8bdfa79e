//! `cargo bench -p vmnoise-testbed --bench scale`: time and memory of `vmnoise scale` for a million
//! ranks. The input is a generated recording of two CPUs.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod many_gaps;

use anyhow::Result;

use self::many_gaps::{generate, time};

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // The largest recording is the last, because the printed memory is the largest of all runs so
    // far.
    for gaps in [100_000, 1_000_000, 10_000_000] {
        let recording = folder.path().join("generated.vmn");
        generate(&recording, gaps)?;
        for collective in ["barrier", "allreduce"] {
            let words = ["scale", "--ranks", "1..1000000", "--collective", collective];
            let said = format!("{collective:>10}, a million ranks, {gaps:>9} gaps");
            time(&said, &words, &recording)?;
        }
    }
    Ok(())
}
