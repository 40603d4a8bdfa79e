//! Exits of vCPUs: each vCPU, and each reason.

use hdrhistogram::Histogram;
use vmnoise_events::Share;
use vmnoise_explain::{Taken, VcpuExits};

use super::{NUMBER, Table, WORD, number, share_of, time, words};
use crate::figures::part_of;
use crate::run::{Outcome, Run};

/// Each vCPU.
pub(super) fn vcpus(run: &Run) -> Table {
    let mut table = Table::new(
        "Exits, vCPU by vCPU",
        &[
            ("vCPU", WORD),
            ("exits", NUMBER),
            ("to the VMM", NUMBER),
            ("in the guest", NUMBER),
            ("in exits", NUMBER),
            ("of its time", NUMBER),
            ("asleep", NUMBER),
            ("p50", NUMBER),
            ("p99", NUMBER),
            ("p99.9", NUMBER),
            ("longest", NUMBER),
        ],
    );
    table.note =
        "In exits, percentiles and the longest are without the sleep that the guest asked for, and \
                  of the exits that were recorded one by one."
            .into();
    let Outcome::Exits(exits) = &run.outcome else {
        return table;
    };
    for vm in &exits.exits.vms {
        for vcpu in &vm.vcpus {
            let place = run.gathered.lanes.iter().position(|tid| *tid == vcpu.tid);
            let lengths = place.map(|place| &run.gathered.lengths[place]);
            let noise_ns = noise_of(&vcpu.time_ns.taken);
            let all_ns = noise_ns + vcpu.time_ns.taken.halted + vcpu.time_ns.guest;
            table.rows.push(vec![
                words(vcpu_name(&vm.name, vcpu)),
                number(vcpu.exits),
                number(vcpu.heavy),
                time(vcpu.time_ns.guest),
                time(noise_ns),
                share_of(Some(part_of(noise_ns, all_ns))),
                time(vcpu.time_ns.taken.halted),
                time(lengths.map(|it| at(it, 0.5))),
                time(lengths.map(|it| at(it, 0.99))),
                time(lengths.map(|it| at(it, 0.999))),
                time(place.and_then(|place| run.longest_ns(place))),
            ]);
        }
    }
    table
}

/// Each reason.
pub(super) fn reasons(run: &Run) -> Table {
    let mut table = Table::new(
        "Exits by reason",
        &[
            ("vCPU", WORD),
            ("reason", WORD),
            ("exits", NUMBER),
            ("to the VMM", NUMBER),
            ("total", NUMBER),
            ("mean", NUMBER),
            ("p99", NUMBER),
            ("longest", NUMBER),
            ("KVM", NUMBER),
            ("VMM", NUMBER),
            ("preempted", NUMBER),
            ("held up", NUMBER),
            ("interrupts", NUMBER),
            ("asleep", NUMBER),
        ],
    );
    table.note =
        "KVM and what follows add up to the total. Held up: blocked or throttled. Interrupts: \
                  the host’s, soft ones and NMIs too. Asleep: as the guest asked for; p99 and the \
                  longest count that as well."
            .into();
    let Outcome::Exits(exits) = &run.outcome else {
        return table;
    };
    for vm in &exits.exits.vms {
        for vcpu in &vm.vcpus {
            for it in &vcpu.reasons {
                let of = &it.shares_ns;
                table.rows.push(vec![
                    words(vcpu_name(&vm.name, vcpu)),
                    words(it.name.clone()),
                    number(it.count),
                    number(it.heavy),
                    time(it.total_ns),
                    time(it.mean_ns),
                    time(it.p99_ns),
                    time(it.max_ns),
                    time(of.kvm),
                    time(of.vmm),
                    time(of.preempted),
                    time(both(of.blocked, of.throttled)),
                    time(both(both(of.host_irq, of.host_softirq), of.host_nmi)),
                    time(of.halted),
                ]);
            }
        }
    }
    table
}

fn at(lengths: &Histogram<u64>, part: f64) -> u64 {
    lengths.value_at_quantile(part).min(lengths.max())
}

/// What a vCPU is called.
fn vcpu_name(vm: &str, vcpu: &VcpuExits) -> String {
    match vcpu.vcpu {
        Some(number) => format!("vCPU {number} of {vm}"),
        None => format!("thread {} of {vm}", vcpu.tid),
    }
}

/// What exits took, without the sleep that the guest asked for, in nanoseconds.
pub(crate) fn noise_of(taken: &Taken) -> u64 {
    let parts = taken.parts().into_iter();
    let noise = parts.filter(|(share, _)| *share != Share::Halted);
    noise.filter_map(|(_, ns)| ns).sum()
}

/// As long as both together, if both are known.
fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}
