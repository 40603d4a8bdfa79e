//! `cargo bench -p vmnoise-serve --bench cost_beside_peers` prints the cost of `vmnoise serve`. It
//! compares the cost per task switch with an empty program and two peers. It also compares the cost
//! with 100 VMs with node_exporter. It checks nothing.
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
