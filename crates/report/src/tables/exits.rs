//! Tables of vCPU exits: by vCPU, and by reason.

use vmnoise_events::Share;
use vmnoise_explain::{EXIT_COLUMNS_OF_PAGE, VcpuExits, VmExits};

use super::Table;
use crate::figures::part_of;
use crate::run::{ReportedRun, RunOutcome};

/// Returns a row for each vCPU.
pub(super) fn vcpus(run: &ReportedRun) -> Table {
    let rows = each_vcpu(run);
    let has_unseen = rows.iter().any(|(_, vcpu)| vcpu.time_ns.unseen > 0);
    let length = |vcpu: &VcpuExits, part| {
        let lengths = &run.gathered.lengths[run.lane_of(vcpu)?];
        Some(lengths.value_at_quantile(part).min(lengths.max()))
    };
    let table = Table::of("Exits, vCPU by vCPU", &rows, |it| {
        it.words("vCPU", |(vm, vcpu)| vcpu_name(run, vm, vcpu).into())
            .count("exits", |(_, vcpu)| vcpu.exits)
            .count("to the VMM", |(_, vcpu)| vcpu.heavy)
            .time("in the guest", |(_, vcpu)| vcpu.time_ns.guest)
            .time("in exits", |(_, vcpu)| vcpu.time_ns.noise_ns())
            .percent("of its time", |(_, vcpu)| {
                part_of(vcpu.time_ns.noise_ns(), vcpu.time_ns.span_ns())
            })
            .time("asleep", |(_, vcpu)| vcpu.time_ns.taken[Share::Halted])
            .time("p50", move |(_, vcpu)| length(vcpu, 0.5))
            .time("p99", move |(_, vcpu)| length(vcpu, 0.99))
            .time("p99.9", move |(_, vcpu)| length(vcpu, 0.999))
            .time("longest", move |(_, vcpu)| {
                run.longest_ns(run.lane_of(vcpu)?)
            })
            .each(has_unseen.then_some("unseen"), |it, title| {
                it.time(title, |(_, vcpu)| vcpu.time_ns.unseen)
            })
    });
    let note = "Times of exits do not include the sleep that the guest asked for. Percentiles and the \
                  longest are of the exits that were recorded one by one.";
    let of_unseen = match has_unseen {
        true => " Unseen time was not observed: it is neither in the guest nor in exits.",
        false => "",
    };
    table.noted(format!("{note}{of_unseen}"))
}

/// Returns a row for each exit reason of each vCPU.
pub(super) fn reasons(run: &ReportedRun) -> Table {
    let rows = each_vcpu(run).into_iter();
    let rows = rows.flat_map(|(vm, vcpu)| vcpu.reasons.iter().map(move |it| (vm, vcpu, it)));
    let table = Table::of("Exits by reason", &rows.collect::<Vec<_>>(), |it| {
        it.words("vCPU", |(vm, vcpu, _)| vcpu_name(run, vm, vcpu).into())
            .name("reason", |(.., it)| Some(&it.name))
            .count("exits", |(.., it)| it.count)
            .count("to the VMM", |(.., it)| it.heavy)
            .time("total", |(.., it)| it.total_ns)
            .time("mean", |(.., it)| it.mean_ns)
            .time("p99", |(.., it)| it.p99_ns)
            .time("longest", |(.., it)| it.max_ns)
            .each(EXIT_COLUMNS_OF_PAGE, |it, (title, shares)| {
                it.time(title, |(.., it)| it.shares_ns.sum_of_all(shares))
            })
    });
    table.noted(
        "KVM and the columns after it add up to the total. Held up: blocked or throttled. Interrupts: \
                  those of the host, with softirqs and NMIs. Asleep: sleep that the guest asked for, \
                  which p99 and the longest include.",
    )
}

fn each_vcpu(run: &ReportedRun) -> Vec<(&VmExits, &VcpuExits)> {
    let RunOutcome::Exits(exits) = &run.outcome else {
        return Vec::new();
    };
    let vms = exits.exits.vms.iter();
    vms.flat_map(|vm| vm.vcpus.iter().map(move |vcpu| (vm, vcpu)))
        .collect()
}

/// Returns the name of a vCPU. If the charts show the vCPU, this is its name in the charts.
fn vcpu_name(run: &ReportedRun, vm: &VmExits, vcpu: &VcpuExits) -> String {
    if let Some(lane) = run.lane_of(vcpu) {
        return run.lane_name(lane).to_owned();
    }
    let vm = &vm.name;
    match vcpu.vcpu {
        Some(number) => format!("vCPU {number} of {vm}"),
        None => format!("thread {} of {vm}", vcpu.tid),
    }
}
