//! Exits in the format of the tracepoint `osnoise:vm_noise`, which a master's thesis adds to the
//! kernel. Fields that only vmnoise has follow after a `|`.

use vmnoise_events::Share;
use vmnoise_explain::{NamedExit, NamedPart, TracedExit};
use vmnoise_views::trace_line::{instant, noise, prefixed};

use crate::cells;

/// Header of the trace.
pub const HEADER: &str = "\
# tracer: vmnoise exits, durations are net; times are CLOCK_MONOTONIC
# CPU    TIMESTAMP  EVENT
";

/// Shares that appear in every line, in this order. Other shares follow if they took time.
const ALWAYS: [Share; 3] = [Share::Kvm, Share::Vmm, Share::Preempted];

/// Returns a line for each activity of the host inside an exit, then a line for the exit.
pub fn lines(traced: &TracedExit) -> String {
    let exit = &traced.exit.exit;
    let inside: String = traced.noise.iter().map(noise).collect();
    inside + &prefixed(exit.entry_cpu, exit.end_mono_ns, &event(&traced.exit))
}

/// Formats the event of an exit. As in the tracepoint, `vm_id` is the number of the vCPU. The
/// shares are in ns, and add up to the duration.
fn event(named: &NamedExit) -> String {
    let NamedExit {
        vcpu,
        exit,
        shares,
        parts,
    } = named;
    let number = cells::number(vcpu.number.map(u64::from));
    let overhead = match named.overhead_ns() {
        Some(ns) => format!("{ns} ns"),
        None => "-".to_owned(),
    };
    let mut line = format!(
        "vm_noise: vm_id:{number} exit_cpu:{} exit_time:{} entry_cpu:{} duration:{} ns \
         exit_reason:0x{:04X} overhead:{overhead} | vm:{} vcpu:{number} reason:{}",
        exit.exit_cpu,
        instant(exit.start_mono_ns),
        exit.entry_cpu,
        exit.dur_ns(),
        exit.reason.code,
        vcpu.vm_name,
        exit.reason,
    );
    for share in ALWAYS {
        if parts.iter().any(|part| part.share == share) {
            let its = parts.iter().filter(|part| part.share == share);
            line.extend(its.map(part));
        } else if shares[share].is_none() {
            line += &format!(" {share}:-");
        } else {
            line += &format!(" {share}:0");
        }
    }
    let others = parts.iter().filter(|part| !ALWAYS.contains(&part.share));
    line.extend(others.map(part));
    line
}

fn part(part: &NamedPart) -> String {
    match &part.source {
        Some(source) => format!(" {}:{} by:{source}", part.share, part.ns),
        None => format!(" {}:{}", part.share, part.ns),
    }
}
