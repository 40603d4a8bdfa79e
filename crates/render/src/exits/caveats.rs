//! Last lines of a result about exits: the status of its probes, and its limitations.

use vmnoise_events::{LossKind, human};
use vmnoise_explain::ExitsRun;
use vmnoise_views::FeedReport;

use crate::caveats::{HEADING, by_kind, late, not_seen, probes, unbounded_kvm};

/// Renders the probes of a run, its limitations, and the report on each feed.
pub fn render(run: &ExitsRun, feeds: &[FeedReport]) -> String {
    let probes = probes(&run.probe_statuses);
    format!("{HEADING}\n{probes}") + &without_probes(run) + &of_feeds(feeds)
}

/// Returns the limitations of the result, without the status of its probes.
pub fn without_probes(run: &ExitsRun) -> String {
    let mut out = String::new();
    if run.losses.get(LossKind::VcpusFull) > 0 {
        out += " vCPUs that did not fit into the table are not counted\n";
    }
    if run.reported > 0 {
        let unnamed = human(run.unnamed_ns);
        let reported = run.reported;
        out += &format!(
            " reported one by one: {reported} exits; {unnamed} of their time has no culprit\n"
        );
    }
    if let Some(surplus_ns @ 1..) = run.surplus_kvm_ns {
        let surplus = human(surplus_ns);
        out += &format!(
            " {surplus} of kvm in these exits is above KVM's usual time for the same reason: a cause without a probe may have taken it\n"
        );
    }
    out += &unbounded_kvm(run.unbounded_kvm_ns.unwrap_or(0));
    let by_kind = by_kind(&run.losses);
    out += &format!(" lost events: {}{by_kind}\n", run.lost_events);
    out + &late(run.late_events) + &not_seen(&run.coverage)
}

/// Returns a line for each feed to a guest.
fn of_feeds(feeds: &[FeedReport]) -> String {
    let line = |feed: &FeedReport| {
        let to = match (&feed.name, feed.vm) {
            (Some(name), Some(pid)) => format!("VM {name} (pid {pid})"),
            _ => "no VM".to_owned(),
        };
        format!(
            " feed {}: {to}, {} frames in {} writes, {} skipped, {} bytes, {} connections\n",
            feed.feed, feed.frames, feed.writes, feed.skipped, feed.bytes, feed.connections
        )
    };
    feeds.iter().map(line).collect()
}
