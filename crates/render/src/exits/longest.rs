//! Exits with the most noise, for JSON.

use serde::Serialize;
use vmnoise_events::Share;
use vmnoise_explain::{LongestExit, NamedPart, NamedPiece};

/// Entry of `longest[]` in `vmnoise.exits/1`.
#[derive(Debug, Serialize)]
pub struct LongestExitRow<'a> {
    vm: u32,
    name: &'a str,
    vcpu: Option<u32>,
    tid: u32,
    start_mono_ns: u64,
    dur_ns: u64,
    reason: String,
    code: u64,
    exit_cpu: u32,
    entry_cpu: u32,
    overhead_ns: Option<u64>,
    parts: &'a [NamedPart],
    pieces: Vec<ListedPiece<'a>>,
    misplaced_ns: u64,
}

#[derive(Debug, Serialize)]
struct ListedPiece<'a> {
    start_mono_ns: u64,
    dur_ns: u64,
    cpu: u32,
    share: Share,
    source: Option<&'a str>,
}

impl<'a> LongestExitRow<'a> {
    /// Creates the entry for this exit.
    pub fn new(longest: &'a LongestExit) -> LongestExitRow<'a> {
        let (vcpu, exit) = (&longest.exit.vcpu, &longest.exit.exit);
        LongestExitRow {
            vm: vcpu.vmm_pid,
            name: &vcpu.vm_name,
            vcpu: vcpu.number,
            tid: vcpu.tid,
            start_mono_ns: exit.start_mono_ns,
            dur_ns: exit.dur_ns(),
            reason: exit.reason.to_string(),
            code: exit.reason.code,
            exit_cpu: exit.exit_cpu,
            entry_cpu: exit.entry_cpu,
            overhead_ns: longest.exit.overhead_ns(),
            parts: &longest.exit.parts,
            pieces: longest.pieces.iter().map(piece).collect(),
            misplaced_ns: longest.misplaced_ns,
        }
    }
}

fn piece(piece: &NamedPiece) -> ListedPiece<'_> {
    ListedPiece {
        start_mono_ns: piece.start_mono_ns,
        dur_ns: piece.dur_ns(),
        cpu: piece.cpu,
        share: piece.share,
        source: piece.name.as_deref(),
    }
}
