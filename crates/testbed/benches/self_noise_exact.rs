//! `cargo bench -p vmnoise-testbed --bench self_noise_exact`: instructions that tracing adds to
//! each timer interrupt. It compares vmnoise, the kernel's own osnoise tracer, and `perf record` of
//! the same events. The same reference poller measures all of them. They run on PREEMPT_RT in the
//! lab under virtual time, where each run executes exactly the same instructions.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::bed::{CommandOutput, DebianKernel, Lab};
use vmnoise_testbed::installed::with_libraries;
use vmnoise_testbed::lab_program;
use vmnoise_testbed::polled::PolledRun;

/// Command of the reference poller: a threshold of 200 cycles (here 200 ns), for 50 ticks of 4 ms.
/// Callers append the time to wait until the tracer has started. The pollers of all tracers wait
/// while the reference poller runs.
const POLL: &str = "lab-poll 0 200 200";
const TRACING: &str = "/sys/kernel/tracing";
/// Command of perf. The command of the poller must follow; perf runs it, and ends with it.
const PERF: &str = "ld-linux-x86-64.so.2 --library-path /bin /bin/perf record --quiet --cpu 0 \
                    --output /tmp/perf.data --event sched:sched_switch,sched:sched_waking,\
                    irq:irq_handler_entry,irq:irq_handler_exit,irq:softirq_entry,irq:softirq_exit,\
                    irq_vectors:local_timer_entry,irq_vectors:local_timer_exit -- /bin/";

fn main() -> Result<()> {
    let osnoise = format!("{POLL} 100 {TRACING}/current_tracer=osnoise");
    let with_events = format!("{POLL} 100 {TRACING}/events/osnoise/enable=1");
    let off = format!("{TRACING}/events/osnoise/enable=0 {TRACING}/current_tracer=nop");
    let nothing = format!("{POLL} 100 {off}");
    // vmnoise measures for only 1 ms in every 9 s, because emulating its polling takes much time.
    let vmnoise = "& vmnoise osnoise --cpus 0 --duration 60s --period 9s --runtime 1ms";
    let mut lab = Lab::kernel(DebianKernel::Rt).virtual_time(0);
    for program in with_libraries("perf", "linux-perf")? {
        lab = lab.program(&program);
    }
    let report = lab.program(&lab_program("lab-poll")?).run(&[
        &format!("{POLL} 100"),
        &osnoise,
        &with_events,
        &nothing,
        &format!("{PERF}{POLL} 500"),
        vmnoise,
        &format!("{POLL} 1000"),
    ])?;
    let polled = report
        .outputs
        .iter()
        .map(polled)
        .collect::<Result<Vec<_>>>()?;
    let [before, osnoise, with_events, after, perf, vmnoise] = &polled[..] else {
        unreachable!("each poll that is waited for has an output");
    };

    println!(
        "one timer interrupt on {}, in instructions",
        report.kernel_version
    );
    println!(
        "{:<46} {:>7} {:>7} {:>12}",
        "", "median", "added", "added ns/s"
    );
    let untraced = median(before)?;
    for (what, polled) in [
        ("nothing traced", before),
        ("kernel's osnoise, which only counts", osnoise),
        (
            "kernel's osnoise, a record of each (osnoise:*)",
            with_events,
        ),
        ("nothing traced any more", after),
        ("perf record of the same events", perf),
        ("vmnoise osnoise, a record of each", vmnoise),
    ] {
        let median = median(polled)?;
        let added_ns = per_second(polled) - per_second(before);
        println!(
            "{what:<46} {median:>7} {:>7} {added_ns:>12.0}",
            median.cast_signed() - untraced.cast_signed()
        );
    }
    let [ours, theirs, perf] = [median(vmnoise)?, median(with_events)?, median(perf)?]
        .map(|median| median as f64 - untraced as f64);
    println!(
        "vmnoise adds {:.2} of what the kernel's tracer adds for the same records",
        ours / theirs
    );
    println!(
        "perf record adds {:.1} times as much as vmnoise",
        perf / ours
    );
    ensure!(
        ours <= theirs,
        "vmnoise adds {ours} instructions to an interrupt, the kernel's own tracer {theirs}"
    );
    Ok(())
}

fn polled(output: &CommandOutput) -> Result<PolledRun> {
    serde_json::from_str(&output.stdout)
        .with_context(|| format!("lab-poll said: {}{}", output.stdout, output.stderr))
}

fn median(polled: &PolledRun) -> Result<u64> {
    polled.median_tsc().context("no gap at all")
}

/// Returns the noise in ns per second. Virtual time runs at 1 GHz.
fn per_second(polled: &PolledRun) -> f64 {
    polled.noise_tsc() as f64 / polled.seconds()
}
