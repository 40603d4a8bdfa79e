//! Culprits of the guest's long gaps or late wake-ups, summed over the whole run.

use vmnoise_events::{Share, human};
use vmnoise_explain::{GuestCulprit, VmSide};

use crate::{cells, table};

/// Maximum number of culprits that are printed; the JSON contains all.
const LISTED: usize = 20;

/// Titles of two columns: the number of disturbed gaps or wake-ups, and the percentage.
pub type CulpritWords = (&'static str, &'static str);
/// Titles for a workload that measures gaps.
pub const OF_GAPS: CulpritWords = ("gaps", "% of noise");
/// Titles for periodic tasks.
pub const OF_TASKS: CulpritWords = ("wake-ups", "% of latency");

/// Renders the culprits with their times, the largest total time first.
pub fn render(culprits: &[GuestCulprit], above_ns: u64, (what, percent): CulpritWords) -> String {
    let above = human(above_ns);
    let total_ns: u64 = culprits.iter().map(|culprit| culprit.total_ns).sum();
    let (listed, others) = culprits.split_at(culprits.len().min(LISTED));
    let table = table::of(listed, |it| {
        it.percent(percent, |culprit| culprit.percent)
            .time("total", |culprit| culprit.total_ns)
            .time("most", |culprit| culprit.max_ns)
            .count(what, |culprit| culprit.gaps)
            .name("share", |culprit| Some(culprit.share.name()))
            .words("who", |culprit| who(culprit).into())
    });
    let mut out = format!(
        "\nWho took it: {what} of {above} and more, {} in all\n{table}",
        human(total_ns),
    );
    if !others.is_empty() {
        let rest_ns: u64 = others.iter().map(|culprit| culprit.total_ns).sum();
        out += &format!(
            " … and {} more, {} together (--format json lists all)\n",
            others.len(),
            human(rest_ns)
        );
    }
    out
}

fn who(culprit: &GuestCulprit) -> String {
    let name = match (&culprit.name, culprit.share) {
        (Some(reason), Share::Kvm) => return format!("KVM, exits for {reason}"),
        (Some(reason), Share::Vmm) => return format!("the VMM, exits for {reason}"),
        (None, Share::Steal) => return "(steal clock alone)".into(),
        (None, share) if share.is_residual() => return "(residual)".into(),
        (Some(name), _) => name.to_string(),
        (None, _) => cells::number(None),
    };
    let side = match culprit.side {
        VmSide::Guest => "guest",
        VmSide::Host => "host",
        VmSide::Unknown => return name,
    };
    match culprit.cpu {
        Some(cpu) => format!("{name} on {side} CPU {cpu}"),
        None => format!("{name} ({side})"),
    }
}
