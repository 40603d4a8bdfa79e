//! Host's side of a join: explains the host's exits and converts them to the guest's clock.

use std::collections::HashMap;

use vmnoise_events::{Event, ExitReason, RunFacts, Share, SourceId};

use super::pairs::Pairs;
use super::settle::{give, settle};
use crate::explainer::Explainer;
use crate::host_exits::{HostExit, ReportedExit};
use crate::piece::Piece;
use crate::vcpus::{ExitExplainer, ExitsRun, OverlaidExit};

/// Explains the host's stream, and passes the exits of the guest's vCPUs to the guest's explainer.
#[derive(Debug)]
pub(super) struct HostStream {
    exits: ExitExplainer,
    names: HostNames,
    has_ended: bool,
}

impl HostStream {
    pub(super) fn new(facts: &RunFacts) -> HostStream {
        HostStream {
            exits: ExitExplainer::piece_by_piece(facts),
            names: HostNames::default(),
            has_ended: false,
        }
    }

    /// Takes the next event, and passes exits that became final to `guest`.
    pub(super) fn push(&mut self, event: &Event, pairs: &Pairs, guest: &mut Explainer) {
        if concerns(event, pairs) {
            let Self { exits, names, .. } = self;
            exits.take(event, &mut |exit| overlay(exit, names, pairs, guest));
        }
    }

    /// Ends the host's stream, and passes the remaining exits to `guest`.
    pub(super) fn end(&mut self, pairs: &Pairs, guest: &mut Explainer) {
        let Self { exits, names, .. } = self;
        exits.end(&mut |exit| overlay(exit, names, pairs, guest));
        self.has_ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns whether every exit that ended by this time (CLOCK_MONOTONIC, ns) has been reported.
    pub(super) fn has_reported(&self, until_ns: u64) -> bool {
        self.has_ended || self.exits.certain_to_ns() >= until_ns
    }

    pub(super) fn finish(self) -> ExitsRun {
        self.exits.finish()
    }
}

/// Returns whether the event matters to this guest. Exits and intervals of other VMs do not.
fn concerns(event: &Event, pairs: &Pairs) -> bool {
    match event {
        Event::Exit(exit) => pairs.cpu_of(exit.vcpu).is_some(),
        Event::VcpuInterval(interval) => pairs.cpu_of(interval.vcpu).is_some(),
        _ => true,
    }
}

/// Ids that the guest's explainer gave to the host's names.
#[derive(Debug, Default)]
struct HostNames {
    /// Ids, indexed by the source id of the host's stream.
    sources: Vec<Option<SourceId>>,
    reasons: HashMap<ExitReason, SourceId>,
}

impl HostNames {
    fn source(&mut self, id: SourceId, name: &str, guest: &mut Explainer) -> SourceId {
        let index = id.0 as usize;
        if index >= self.sources.len() {
            self.sources.resize(index + 1, None);
        }
        *self.sources[index].get_or_insert_with(|| guest.name_of_host(name))
    }

    fn reason(&mut self, reason: ExitReason, guest: &mut Explainer) -> SourceId {
        let name = || guest.name_of_host(&reason.name());
        *self.reasons.entry(reason).or_insert_with(name)
    }
}

/// Converts an exit to the guest's clock and passes it to `guest`. Drops an exit whose times cannot
/// be converted.
fn overlay(
    overlaid: OverlaidExit<'_>,
    names: &mut HostNames,
    pairs: &Pairs,
    guest: &mut Explainer,
) {
    let exit = &overlaid.budget.exit;
    let id = overlaid.budget.vcpu;
    let Some(cpu) = pairs.cpu_of(id) else {
        return;
    };
    let reason = names.reason(exit.reason, guest);
    let mut reported = overlaid.pieces.to_vec();
    settle(&mut reported, &exit.split);
    // KVM's time above its usual time becomes unexplained if other work of the host took part in
    // the exit. If the recording cannot show such work, all of KVM's time becomes unexplained.
    let nobodys_ns = match overlaid.vcpu.sees_kvm && !overlaid.knows_kvm {
        true => exit.split[Share::Kvm],
        false => overlaid.held.surplus_ns,
    };
    give(&mut reported, Share::Kvm, Share::Unexplained, nobodys_ns);

    let Some(start_mono_ns) = pairs.map(id, exit.start_mono_ns) else {
        return;
    };
    let mut pieces = Vec::with_capacity(reported.len());
    let mut end_mono_ns = start_mono_ns;
    for piece in &reported {
        let Some(to_ns) = pairs.map(id, piece.end_mono_ns) else {
            return;
        };
        let from_ns = end_mono_ns;
        end_mono_ns = to_ns.max(from_ns);
        if from_ns < end_mono_ns {
            pieces.push(Piece {
                start_mono_ns: from_ns,
                end_mono_ns,
                source: match piece.share {
                    Share::Kvm | Share::Vmm => Some(reason),
                    _ => piece.source.and_then(|source| {
                        let name = overlaid.names.defined(source)?;
                        Some(names.source(name, overlaid.names.name(Some(name)), guest))
                    }),
                },
                ..*piece
            });
        }
    }
    let exit = HostExit {
        start_mono_ns,
        end_mono_ns,
        reason,
        heavy: exit.heavy,
        exit_cpu: exit.exit_cpu,
        entry_cpu: exit.entry_cpu,
        pieces,
        reported: ReportedExit {
            dur_ns: exit.dur_ns(),
            thesis_ns: overlaid.budget.thesis_sum_ns(overlaid.knows_kvm),
            surplus_ns: nobodys_ns,
            unbounded_kvm_ns: overlaid.held.unbounded_ns,
        },
        is_met: false,
    };
    guest.add_host_exit(cpu, exit);
}
