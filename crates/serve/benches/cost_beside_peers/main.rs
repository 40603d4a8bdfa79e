//! `cargo bench -p vmnoise-serve --bench cost_beside_peers`: what `vmnoise serve` adds to each switch of
//! the scheduler, beside an empty program and two peers, and what it costs with 100 VMs, beside
//! node_exporter. It prints; nothing is asserted.
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
