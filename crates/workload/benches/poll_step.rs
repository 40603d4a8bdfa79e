//! Prints what one step of the guest costs beside a bare rdtsc loop on the host,
//! on the same CPU. It asserts nothing.
//!
//! `cargo bench -p vmnoise-workload --bench poll_step [-- CPU]`

use vmnoise_workload::{microvm, thread, tsc};

fn main() {
    let cpu = std::env::args()
        .find_map(|arg| arg.parse().ok())
        .unwrap_or(0);
    thread::pin(&[cpu]).expect("the CPU to measure exists and is allowed");

    println!("CPU {cpu}, cycles         min  median   p99.9");
    match microvm::poll_steps(cpu) {
        Ok(steps) => row("guest's poll step", steps),
        Err(error) => println!("guest's poll step: {error}"),
    }
    row("host's rdtsc loop", bare_loop());
    println!("one rdtsc: {} cycles", tsc::rdtsc_cycles());
}

fn bare_loop() -> Vec<u64> {
    let mut deltas = vec![0; 1 << 18];
    let mut last = tsc::now();
    for delta in &mut deltas {
        let next = tsc::now();
        *delta = next.wrapping_sub(last);
        last = next;
    }
    deltas
}

fn row(name: &str, mut cycles: Vec<u64>) {
    cycles.sort_unstable();
    let at = |part: f64| cycles[((cycles.len() - 1) as f64 * part) as usize];
    println!("{name:<20} {:>7} {:>7} {:>7}", at(0.0), at(0.5), at(0.999));
}
