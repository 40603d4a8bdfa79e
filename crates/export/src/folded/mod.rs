//! Writes lost time by cause as folded stacks, the input format of flame graph tools.

mod frames;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use vmnoise_events::{RunFacts, Share, SourceId};
use vmnoise_explain::{ExitsSummary, Interval, TracedExit, VmExits};

use crate::error::{ExportError, io_error};
use crate::whole_file::{Readers, WholeFile};
use frames::{Frame, Frames};

/// Frame for time of a wake-up whose phases are unknown.
const UNSPLIT: &str = "unsplit";
/// The kernel's name for all exit reasons that have no counter of their own.
const OTHERS: &str = "others";
/// Frame for time that was taken from a vCPU while the vCPU ran its guest. Contains only time that
/// the host observed.
const NO_EXIT: &str = "no exit";

/// Stacks in Brendan Gregg's format (stackcollapse.pl). Each line is one stack: frames from the
/// root on, separated by `;`, then a space and the time in nanoseconds.
///
/// - Gaps: `cpu N;share;source`
/// - Wake-ups: `phase;share;source`
/// - Exits: `vm:pid;reason;share;source`
/// - Time taken from a vCPU while it ran its guest: `vm:pid;no exit;share`
///
/// If the source is unknown, its frame is left out. In names, `%` and all separators are
/// percent-encoded byte by byte (`%3B`). So no name can add a frame, a number or a line.
#[derive(Debug)]
pub struct FoldedStacks {
    path: PathBuf,
    file: WholeFile,
    frames: Frames,
    ns: BTreeMap<Stack, u64>,
    /// Whether only some exit reasons were requested. The time of other reasons is left out in this
    /// case.
    only_some_reasons: bool,
}

/// A stack: root, share and source. Stacks of exits have the exit's reason after the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stack {
    root: Frame,
    reason: Option<Frame>,
    share: Share,
    source: Option<Frame>,
}

impl FoldedStacks {
    /// Creates a file of folded stacks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, facts: &RunFacts) -> Result<FoldedStacks, ExportError> {
        let filter = facts.options.exits.as_ref();
        Ok(FoldedStacks {
            path: path.to_owned(),
            file: WholeFile::create(path, Readers::Anyone).map_err(io_error(path))?,
            frames: Frames::default(),
            ns: BTreeMap::new(),
            only_some_reasons: filter.is_some_and(|filter| !filter.reasons.is_empty()),
        })
    }

    /// Adds a gap or a wake-up.
    pub fn interval<'n>(&mut self, interval: &Interval, names: &dyn Fn(SourceId) -> &'n str) {
        for part in &interval.parts {
            let root = match (&part.phase, interval.wakeup()) {
                (Some(phase), _) => self.frames.own(phase.name().into()),
                (None, Some(_)) => self.frames.own(UNSPLIT.into()),
                (None, None) => self.frames.own(format!("cpu {}", interval.cpu)),
            };
            let source = part.source.map(|id| self.frames.foreign(names(id)));
            let stack = Stack {
                root,
                reason: None,
                share: part.share,
                source,
            };
            self.add(stack, part.ns);
        }
    }

    /// Adds an exit, without the sleep that the guest asked for.
    pub fn exit(&mut self, exit: &TracedExit) {
        let exit = &exit.exit;
        let root = self.frames.vm(exit.vcpu.vmm_pid);
        let reason = self.frames.foreign(&exit.exit.reason.name());
        for part in exit.parts.iter().filter(|it| it.share != Share::Halted) {
            let source = part.source.as_ref();
            let stack = Stack {
                root,
                reason: Some(reason),
                share: part.share,
                source: source.map(|name| self.frames.foreign(name)),
            };
            self.add(stack, part.ns);
        }
    }

    fn add(&mut self, stack: Stack, ns: u64) {
        let sum = self.ns.entry(stack).or_default();
        *sum = sum.saturating_add(ns);
    }

    /// Sets the names of VMs. Adds the time that the kernel counted for exits that are not in the
    /// recording one by one. The source of this time is unknown.
    pub fn counted(&mut self, exits: &ExitsSummary) {
        for vm in &exits.vms {
            self.frames.name_vm(vm.vm, &vm.name);
            let root = self.frames.vm(vm.vm);
            let mut counted: BTreeMap<(Share, Frame), u64> = BTreeMap::new();
            for reason in vm.vcpus.iter().flat_map(|vcpu| &vcpu.reasons) {
                let frame = self.frames.foreign(&reason.name);
                let known = reason.shares_ns.iter();
                let known = known.filter_map(|(share, ns)| Some((share, ns?)));
                for (share, ns) in known.filter(|(share, _)| *share != Share::Halted) {
                    let sum = counted.entry((share, frame)).or_default();
                    *sum = sum.saturating_add(ns);
                }
            }
            self.add_rests(root, &counted);
            if !self.only_some_reasons {
                self.add_outside_of_exits(root, vm, &counted);
            }
        }
    }

    fn add_outside_of_exits(
        &mut self,
        root: Frame,
        vm: &VmExits,
        counted: &BTreeMap<(Share, Frame), u64>,
    ) {
        let no_exit = self.frames.own(NO_EXIT.into());
        for share in Share::ALL.into_iter().filter(|it| *it != Share::Halted) {
            let taken = vm.vcpus.iter().map(|vcpu| {
                let taken_ns = vcpu.time_ns.taken[share].unwrap_or(0);
                // Time with the share `Unexplained` contains unseen time, which may not have been
                // taken at all.
                let is_unseen = share == Share::Unexplained;
                taken_ns.saturating_sub(if is_unseen { vcpu.time_ns.unseen } else { 0 })
            });
            let taken_ns = taken.fold(0, u64::saturating_add);
            let rest_ns = taken_ns.saturating_sub(of_share(counted, share));
            self.add_rest(root, no_exit, share, rest_ns);
        }
    }

    fn add_rests(&mut self, root: Frame, counted: &BTreeMap<(Share, Frame), u64>) {
        let mut reported: BTreeMap<(Share, Frame), u64> = BTreeMap::new();
        for (stack, ns) in self.ns.iter().filter(|(stack, _)| stack.root == root) {
            if let Some(reason) = stack.reason {
                *reported.entry((stack.share, reason)).or_default() += ns;
            }
        }
        let others = self.frames.foreign(OTHERS);
        for share in Share::ALL {
            let mut rest_ns = of_share(counted, share).saturating_sub(of_share(&reported, share));
            let counted = counted.iter().filter(|((its, _), _)| *its == share);
            // An exit whose reason has no counter is recorded under its own reason, but counted as
            // `others`.
            let (of_others, named): (Vec<_>, Vec<_>) =
                counted.partition(|((_, reason), _)| *reason == others);
            for ((_, reason), ns) in named {
                let reported_ns = reported.get(&(share, *reason)).copied().unwrap_or(0);
                let of_reason_ns = ns.saturating_sub(reported_ns).min(rest_ns);
                rest_ns -= of_reason_ns;
                self.add_rest(root, *reason, share, of_reason_ns);
            }
            if !of_others.is_empty() {
                self.add_rest(root, others, share, rest_ns);
            }
        }
    }

    fn add_rest(&mut self, root: Frame, reason: Frame, share: Share, ns: u64) {
        if ns > 0 {
            let stack = Stack {
                root,
                reason: Some(reason),
                share,
                source: None,
            };
            self.add(stack, ns);
        }
    }

    /// Returns whether no time was added.
    pub fn is_empty(&self) -> bool {
        self.ns.values().all(|ns| *ns == 0)
    }

    /// Writes every stack.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<(), ExportError> {
        let mut out = BufWriter::new(self.file);
        let mut write = || {
            for (stack, ns) in self.ns.iter().filter(|(_, ns)| **ns > 0) {
                write!(out, "{}", self.frames.text(stack.root))?;
                if let Some(reason) = stack.reason {
                    write!(out, ";{}", self.frames.text(reason))?;
                }
                write!(out, ";{}", stack.share.name())?;
                if let Some(source) = stack.source {
                    write!(out, ";{}", self.frames.text(source))?;
                }
                writeln!(out, " {ns}")?;
            }
            out.flush()
        };
        write().map_err(io_error(&self.path))?;
        let file = out.into_inner().map_err(|error| error.into_error());
        file.and_then(WholeFile::finish)
            .map_err(io_error(&self.path))
    }
}

/// Returns the sum of a share over all reasons.
fn of_share(sums: &BTreeMap<(Share, Frame), u64>, share: Share) -> u64 {
    let sums = sums.iter().filter(|((its, _), _)| *its == share);
    sums.fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
}

#[cfg(test)]
mod tests;
