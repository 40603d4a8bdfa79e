//! Prints the cost of one iteration of the guest's polling loop and of a polling thread's loop. A
//! bare rdtsc loop on the same CPU of the host is printed for comparison. The benchmark asserts
//! nothing.
//!
//! Some TSCs advance in coarse increments (24 or 25 cycles every 10 ns on one EPYC). On such a TSC,
//! the median is a multiple of the increment, but the mean of the lower 99 % has a finer
//! resolution.
//!
//! `cargo bench -p vmnoise-workload --bench poll_step [-- CPU]`

use vmnoise_workload::{microvm, spin, thread, tsc};

fn main() {
    let cpu = std::env::args()
        .find_map(|arg| arg.parse().ok())
        .unwrap_or(0);
    thread::pin(&[cpu]).expect("the CPU to measure exists and is allowed");

    println!("CPU {cpu}, cycles             min  median   p99.9  mean of the lower 99 %");
    match microvm::poll_steps(cpu) {
        Ok(steps) => row("guest's poll step", steps),
        Err(error) => println!("guest's poll step: {error}"),
    }
    match spin::poll_steps(cpu) {
        Ok(steps) => row("thread's poll step", steps),
        Err(error) => println!("thread's poll step: {error}"),
    }
    row("host's rdtsc loop", bare_loop());
    println!("one rdtsc: {} cycles", tsc::rdtsc_cycles());
}

fn bare_loop() -> Vec<u64> {
    // Not zeros: the first write to a page of zeros would fault in the loop.
    let mut deltas = vec![u64::MAX; 1 << 18];
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
    let quiet = &cycles[..cycles.len() / 100 * 99];
    let mean = quiet.iter().sum::<u64>() as f64 / quiet.len() as f64;
    let (min, median, tail) = (at(0.0), at(0.5), at(0.999));
    println!("{name:<20} {min:>7} {median:>7} {tail:>7} {mean:>7.1}");
}
