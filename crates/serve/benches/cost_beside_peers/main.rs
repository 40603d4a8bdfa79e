//! `cargo bench -p vmnoise-serve --bench cost_beside_peers`: the cost of `vmnoise serve` for each
//! switch of the scheduler, compared with an empty program and two peers; and its cost with 100
//! VMs, compared with node_exporter. It prints; it asserts nothing.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod crowd;
mod switches;

use anyhow::Result;

fn main() -> Result<()> {
    switches::print()?;
    println!();
    crowd::print()
}
