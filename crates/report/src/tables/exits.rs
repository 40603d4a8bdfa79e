//! Exits of vCPUs: each vCPU, and each reason.

use hdrhistogram::Histogram;
use vmnoise_events::Share;
use vmnoise_explain::VcpuExits;

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
    let mut vcpus = exits.exits.vms.iter().flat_map(|vm| &vm.vcpus);
    let has_unseen = vcpus.any(|vcpu| vcpu.time_ns.unseen > 0);
    if has_unseen {
        table.columns.push(("unseen".into(), NUMBER));
        table.note += " Unseen: what nobody saw, and so neither in the guest nor in exits.";
    }
    for vm in &exits.exits.vms {
        for vcpu in &vm.vcpus {
            let place = run.gathered.lanes.iter().position(|tid| *tid == vcpu.tid);
            let lengths = place.map(|place| &run.gathered.lengths[place]);
            let noise_ns = vcpu.time_ns.noise_ns();
            let all_ns = vcpu.time_ns.span_ns();
            let mut row = vec![
                words(vcpu_name(&vm.name, vcpu)),
                number(vcpu.exits),
                number(vcpu.heavy),
                time(vcpu.time_ns.guest),
                time(noise_ns),
                share_of(Some(part_of(noise_ns, all_ns))),
                time(vcpu.time_ns.taken[Share::Halted]),
                time(lengths.map(|it| at(it, 0.5))),
                time(lengths.map(|it| at(it, 0.99))),
                time(lengths.map(|it| at(it, 0.999))),
                time(place.and_then(|place| run.longest_ns(place))),
            ];
            if has_unseen {
                row.push(time(vcpu.time_ns.unseen));
            }
            table.rows.push(row);
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
                    time(of[Share::Kvm]),
                    time(of[Share::Vmm]),
                    time(of[Share::Preempted]),
                    time(of.sum_of_all([Share::Blocked, Share::Throttled])),
                    time(of.sum_of_all(Share::HOST_INTERRUPTS)),
                    time(of[Share::Halted]),
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
