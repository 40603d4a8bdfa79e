//! The flight recorder: writes the last minutes of all vCPUs into a recording, on request.
//!
//! The rings of the gate hold each piece of lost time of 20 us or longer. Snapshots of the counters
//! hold the totals. From both, this module makes a recording in the format of `vmnoise exits`. Each
//! "exit" in it is a time in which a vCPU's thread was off its CPU. Real exits are unknown here.

mod clocks;
mod events;
mod snapshots;
mod stretches;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use vmnoise_events::{
    Event, ExitFilter, Name, ProbeStatus, RunFacts, RunOptions, Vcpu, VcpuClock, VmIdentity,
    Witnesses,
};
use vmnoise_recording::Writer;
use vmnoise_tracer::{GateVcpuId, LostPiece, LostPieces, PieceKind, TOLD_FROM_NS};

use crate::machine::Machine;

pub(crate) use clocks::Clocks;
pub(crate) use snapshots::{Snapshot, Snapshots, Spent};

/// Number of the longest times off the CPU that a report draws in detail.
const TOP: usize = 20;

/// Facts about a vCPU that a recording needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Label of the vCPU's VM.
    pub(crate) vm: Name,
    pub(crate) tid: u32,
    pub(crate) vmm_pid: u32,
    /// Number of the vCPU in its VM; `None` if this kernel has no type information about KVM.
    pub(crate) number: Option<u32>,
    /// Identity of the vCPU's VM.
    pub(crate) identity: VmIdentity,
}

impl Member {
    /// Returns the event that defines this vCPU under the id `id`.
    fn vcpu(&self, id: vmnoise_events::VcpuId) -> Vcpu {
        Vcpu {
            id,
            tid: self.tid,
            vmm_pid: self.vmm_pid,
            number: self.number,
            vm: 0,
            vm_name: self.vm.clone(),
            identity: self.identity.clone(),
            sees_kvm: false,
        }
    }
}

/// Requested content of a dump.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Length of the wanted time window until now, in ns; `None` for the whole history.
    pub(crate) last_ns: Option<u64>,
    /// Label of the only wanted VM; `None` for all VMs.
    pub(crate) vm: Option<Name>,
    /// Process id of the VMM of the only wanted VM; `None` for all VMMs. An ended VM may have had
    /// the same label as a present VM.
    pub(crate) vmm_pid: Option<u32>,
}

/// Returns the facts about a recording that contains only scheduling. `made` is the reason for an
/// automatic dump.
fn facts(
    machine: &Machine,
    wanted: &Wanted,
    began: Timestamp,
    length_ns: u64,
    made: Option<&Made>,
) -> RunFacts {
    let options = RunOptions {
        duration_ns: length_ns,
        threshold_ns: TOLD_FROM_NS,
        top: TOP,
        trace: true,
        exits: Some(ExitFilter {
            vm: wanted.vm.clone(),
            ..ExitFilter::default()
        }),
        ..RunOptions::default()
    };
    let limit = "it has waits for a CPU, and sleeps in KVM that no guest asked for, from 20 us on; it does \
                 not distinguish exits, interrupts and shorter waits";
    let mut limit = limit.to_owned();
    if let Some(Made { why, beside }) = made {
        if let Some(Beside { vm, file }) = beside {
            limit += &format!("; {file} has all exits of {vm} after this dump");
        }
        limit += &format!("; reason: {why}");
    }
    let remedy = "vmnoise exits -o FILE records all exits from now on";
    let witnesses = Witnesses {
        sched: true,
        ..Witnesses::default()
    };
    let status = ProbeStatus::limited("flight recorder", "scheduling", &limit, remedy);
    machine.facts(began, options, witnesses, vec![status])
}

/// Reason for an automatic dump, and the recording that follows the dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) why: String,
    pub(crate) beside: Option<Beside>,
}

/// VM whose exits are recorded after the dump, and the file with this recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) vm: Name,
    pub(crate) file: String,
}

/// Returns the longest wait that began at `from_mono_ns` or later. The result is the wait's length
/// in ns, and the task or cause that took most of it.
pub(crate) fn longest_wait<'a>(
    pieces: impl Iterator<Item = &'a LostPiece>,
    from_mono_ns: u64,
    member: &dyn Fn(GateVcpuId) -> Option<Arc<Member>>,
) -> Option<(u64, String)> {
    let waited = pieces.filter(|piece| piece.kind != PieceKind::Blocked);
    let stretches = stretches::stretches(waited.cloned().collect(), from_mono_ns).into_iter();
    let longest = stretches.max_by_key(|stretch| stretch.exit().dur_ns())?;
    let mut had = BTreeMap::<String, u64>::new();
    for piece in &longest.pieces {
        let who = match (&piece.runner, piece.kind) {
            (Some(runner), _) => events::name_of(runner, member),
            (None, PieceKind::Throttled) => "throttled".to_owned(),
            (None, PieceKind::Idle) => "idle".to_owned(),
            (None, _) => "unknown".to_owned(),
        };
        *had.entry(who).or_insert(0) += stretches::length_ns(piece);
    }
    let most = had.into_iter().max_by_key(|(_, ns)| *ns);
    Some((longest.exit().dur_ns(), most?.0))
}

/// Data for a dump.
pub(crate) struct Material<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) pieces: LostPieces,
    pub(crate) snapshots: &'a Snapshots,
    /// Snapshot of the current counters.
    pub(crate) now: Snapshot,
    pub(crate) member: &'a dyn Fn(GateVcpuId) -> Option<Arc<Member>>,
    /// Returns the clocks of a vCPU's guest, ordered by time. The caller must set `vcpu` of each
    /// clock.
    pub(crate) clocks: &'a dyn Fn(GateVcpuId) -> Vec<VcpuClock>,
}

/// Returns a recording of the wanted time window, as far as the history reaches.
///
/// # Errors
/// If no part of the history is complete, or memory is short.
pub(crate) fn recording(
    mut material: Material<'_>,
    wanted: &Wanted,
    made: Option<&Made>,
) -> Result<Vec<u8>> {
    let pieces = std::mem::take(&mut material.pieces.pieces);
    let now_ns = material.now.anchor.mono_ns;
    let asked_ns = wanted.last_ns.map_or(0, |last| now_ns.saturating_sub(last));
    let whole_ns = material.pieces.whole_from_mono_ns;
    let begin = material.snapshots.before(asked_ns, whole_ns).context(
        "the history does not reach back to the last snapshot: use a larger `vmnoise serve --history`",
    )?;
    let length_ns = now_ns.saturating_sub(begin.anchor.mono_ns);
    let length = SignedDuration::from_nanos(i64::try_from(length_ns).unwrap_or(i64::MAX));
    let began = Timestamp::now().checked_sub(length).unwrap_or_default();
    let facts = facts(material.machine, wanted, began, length_ns, made);
    let mut writer = Writer::new(Vec::new(), &facts).context("beginning the recording")?;
    let mut result = Ok(());
    events::tell(&material, pieces, begin, wanted, &mut |event: Event| {
        if result.is_ok() {
            result = writer.push(&event);
        }
    });
    result.context("writing the recording")?;
    writer.finish().context("ending the recording")
}
