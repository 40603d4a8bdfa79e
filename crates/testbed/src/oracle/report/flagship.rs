//! Writes the tables of the flagship scenario: noise according to the guest's own kernel, to
//! `vmnoise` in the guest, and to the join.

use super::maybe;
use crate::oracle::branch::OracleExit;
use crate::oracle::flagship::{Flagship, FlagshipSample, SHARES};

/// Returns the two tables of the scenario.
pub fn flagship(found: &Flagship) -> String {
    let [hw, nmi, irq, softirq, thread] = found.kernel.counts;
    let mut text = format!(
        "### A guest whose vCPU shares its CPU with `{}` of the host\n\n\
         Linux {} with PREEMPT_RT in the guest, {} on the host, virtual time. The guest's own osnoise \
         tracer measured first, then `vmnoise osnoise` in the same guest. The kernel's tracer only counts events. The vCPU did not \
         run for {} µs at most. The kernel counts such a time as one `IRQ` if a timer interrupt came when the vCPU \
         ran again, and else as one `HW`. `vmnoise` measures the time of each share:\n\n\
         | the guest's own kernel | | | `vmnoise`, one second | in the guest | joined with the host's recording |\n\
         |---|---|---|---|---|---|\n\
         | noise % | {:.2} | | noise % | {:.2} | {:.2} |\n",
        found.disturber,
        found.guest_version,
        found.host_version,
        found.kernel.longest_us,
        found.kernel.noise_percent,
        found.alone.noise_percent,
        found.joined.noise_percent,
    );
    let kernels = [
        ("`IRQ`", irq),
        ("`SIRQ`", softirq),
        ("`THREAD`", thread),
        ("`HW`", hw),
        ("`NMI`", nmi),
    ];
    for (at, ((name, count), share)) in kernels.iter().zip(SHARES).enumerate() {
        let ms = |columns: &FlagshipSample| {
            maybe(columns.shares_ns[at].map(|ns| format!("{:.3} ms", ns as f64 / 1e6)))
        };
        text += &format!(
            "| {name} | {count} | | `{share}` | {} | {} |\n",
            ms(&found.alone),
            ms(&found.joined)
        );
    }
    text += &format!(
        "\nIn {:.0} ms of this second, the host's scheduler counted {:.3} ms of run delay for the vCPU's thread \
         (schedstat of proc(5)). `vmnoise osnoise` in the guest alone attributes {:.2} % of it to steal.\n",
        found.waited.apart_tsc as f64 / 1e6,
        found.waited.run_delay_ns as f64 / 1e6,
        found.booked_as_steal_percent(),
    );
    text += "\n| culprit, in gaps above 20 µs | share | % |\n|---|---|---|\n";
    for (share, name, percent) in &found.culprits {
        text += &format!("| `{name}` | `{share}` | {percent:.2} |\n");
    }
    text
}

/// Returns the section with an exit as a tree.
pub fn busiest_exit(found: &OracleExit) -> String {
    format!(
        "### An exit with much work of its host\n\n\
         Linux {} with PREEMPT_RT on the host, virtual time. A task on the vCPU's CPU leaves work to the kernel's \
         own threads. This is the exit of 60 to 120 µs with the most different kinds of work. (The exit of the \
         thesis' Figure 25 takes more than 60 µs.)\n\n```\n{found}```\n",
        found.host_version
    )
}
