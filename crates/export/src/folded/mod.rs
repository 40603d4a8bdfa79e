//! Who took the time, as folded stacks: what flame graphs are drawn from.

mod frames;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use vmnoise_events::{RunFacts, Share, SourceId};
use vmnoise_explain::{ExitsSummary, Interval, TracedExit, VmExits};

use crate::error::{ExportError, io_error};
use crate::whole_file::{Readers, WholeFile};
use frames::{Frame, Frames};

/// The frame of wake-ups of which a step was not seen.
const UNSPLIT: &str = "unsplit";
/// What the kernel calls exits for reasons that found no place of their own.
const OTHERS: &str = "others";
/// The frame of what was taken from a vCPU while it was in its guest, as far as its host could tell.
const NO_EXIT: &str = "no exit";

/// Stacks in Brendan Gregg's format (stackcollapse.pl): frames from the root on with `;` between them, a
/// space, and nanoseconds; a line for each stack. Of gaps `cpu N;share;source`, of wake-ups
/// `phase;share;source`, of exits `vm:pid;reason;share;source`, and `vm:pid;no exit;share` of what
/// was taken from vCPUs inside of their guest. Where nobody is named there is no frame for a source.
///
/// In names everything that separates anything for somebody who reads such files, and `%`, is written
/// as in addresses of the web, byte by byte (`%3B`): no name makes a frame, a number or a line.
#[derive(Debug)]
pub struct FoldedStacks {
    path: PathBuf,
    file: WholeFile,
    frames: Frames,
    ns: BTreeMap<Stack, u64>,
    /// Exits for some reasons were asked for, and what others took is of no interest.
    only_some_reasons: bool,
}

/// The root, what is below it, and who that was. Of exits the root and the reason come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stack {
    root: Frame,
    reason: Option<Frame>,
    share: Share,
    source: Option<Frame>,
}

impl FoldedStacks {
    /// Begins a file of stacks.
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

    /// Adds an exit, but for the sleep that its guest asked for.
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

    /// Names the VMs, and adds what the kernel counted of their exits and nobody reported one by one:
    /// nobody is named for that.
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
                // Nobody saw whether that was taken at all.
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
            // A reason without a place is reported by its name, and counted among the others.
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

    /// Whether nothing was taken.
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

/// What a share has of all reasons together.
fn of_share(sums: &BTreeMap<(Share, Frame), u64>, share: Share) -> u64 {
    let sums = sums.iter().filter(|((its, _), _)| *its == share);
    sums.fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
}

#[cfg(test)]
mod tests;
