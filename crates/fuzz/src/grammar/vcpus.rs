//! Events about vCPUs that a host may record.

use vmnoise_events::{
    Event, Exit, ExitReason, Isa, ReasonTotals, Share, ShareMap, Vcpu, VcpuClock, VcpuExit, VcpuId,
    VcpuInterval, VcpuIntervalKind, VcpuTotals, VmFact, VmIdentity,
};

use super::Words;
use super::events::Stream;

impl Stream<'_, '_> {
    pub(super) fn of_vcpu(&mut self) -> Event {
        match self.words.below(16) {
            0 => self.vcpu(),
            1 => self.clock(),
            2 => Event::VcpuTotals(self.vcpu_totals()),
            3..=8 => self.interval(),
            _ => Event::Exit(VcpuExit {
                vcpu: self.vcpu_id(),
                exit: self.exit(),
            }),
        }
    }

    /// Returns a new vCPU, or a new definition of a known vCPU.
    pub(super) fn vcpu(&mut self) -> Event {
        Event::Vcpu(self.any_vcpu())
    }

    pub(crate) fn any_vcpu(&mut self) -> Vcpu {
        let id = u32::from(self.words.byte()) % (self.vcpus + 1);
        self.vcpus = self.vcpus.max(id + 1);
        Vcpu {
            id: VcpuId(id),
            tid: self.words.count_u32(),
            vmm_pid: self.words.count_u32(),
            number: self.words.maybe(Words::count_u32),
            vm: self.words.count(),
            vm_name: self.words.name().into(),
            identity: self.identity(),
            sees_kvm: self.words.flag(),
        }
    }

    fn identity(&mut self) -> VmIdentity {
        let known = self.words.below(4);
        let facts = (0..known).map(|_| (self.words.one_of(&VmFact::ALL), self.words.name()));
        facts.collect()
    }

    fn clock(&mut self) -> Event {
        Event::VcpuClock(self.vcpu_clock())
    }

    pub(crate) fn vcpu_clock(&mut self) -> VcpuClock {
        let (before_until_mono_ns, from_mono_ns) = self.span();
        let is_wild = self.words.is_wild();
        VcpuClock {
            vcpu: self.vcpu_id(),
            before_until_mono_ns,
            from_mono_ns,
            offset_tsc: self.words.count().cast_signed(),
            ratio: match is_wild {
                true => self.words.any(),
                false => self.words.one_of(&[1 << 32, 3 << 31, 1]),
            },
            ratio_frac_bits: match is_wild {
                true => self.words.byte(),
                false => self.words.one_of(&[32, 48, 0]),
            },
        }
    }

    fn interval(&mut self) -> Event {
        let (start_mono_ns, end_mono_ns) = self.span();
        let source = self.source_id();
        Event::VcpuInterval(VcpuInterval {
            vcpu: self.vcpu_id(),
            kind: self.words.one_of(&VcpuIntervalKind::ALL),
            start_mono_ns,
            end_mono_ns,
            cpu: self.cpu(),
            to_cpu: self.cpu(),
            source: self.words.maybe(|_| source),
        })
    }

    fn exit(&mut self) -> Exit {
        let (start_mono_ns, end_mono_ns) = self.span();
        let mut exit = Exit {
            start_mono_ns,
            end_mono_ns,
            reason: self.reason(),
            exit_cpu: self.cpu(),
            entry_cpu: self.cpu(),
            heavy: self.words.flag(),
            split: self.split(),
        };
        // Readers accept an exit only if its parts add up to its length.
        if !self.words.is_wild() {
            exit.split = adding_up(exit.split, exit.dur_ns());
        }
        exit
    }

    fn reason(&mut self) -> ExitReason {
        ExitReason {
            isa: self.words.one_of(&Isa::ALL),
            code: self.words.count(),
        }
    }

    pub(super) fn split(&mut self) -> ShareMap<u64> {
        let often = self.words.one_of(&[3, 12]);
        ShareMap::only(Share::OF_EXITS, |_| match self.words.once_in(often) {
            true => self.words.length(),
            false => 0,
        })
    }

    pub(crate) fn vcpu_totals(&mut self) -> VcpuTotals {
        // Readers reject sums that are longer than the presence of the vCPU.
        let (first_mono_ns, last_mono_ns) = match self.words.flag() {
            true => (0, self.time()),
            false => self.span(),
        };
        VcpuTotals {
            vcpu: self.vcpu_id(),
            first_mono_ns,
            last_mono_ns,
            exits: self.words.count(),
            heavy: self.words.count(),
            split: self.split(),
            unseen_ns: self.words.count(),
            worst: match self.words.flag() {
                true => Some(Box::new(self.exit())),
                false => None,
            },
            reasons: (0..self.words.below(4))
                .map(|_| self.reason_totals())
                .collect(),
        }
    }

    fn reason_totals(&mut self) -> ReasonTotals {
        let reason = self.reason();
        ReasonTotals {
            reason: self.words.maybe(|_| reason),
            count: self.words.count(),
            heavy: self.words.count(),
            min_ns: self.words.length(),
            max_ns: self.words.length(),
            split: self.split(),
            histogram: self.words.list(4, |words| (words.length(), words.count())),
        }
    }
}

/// Returns the parts, cut or extended so that they add up to this length.
fn adding_up(split: ShareMap<u64>, dur_ns: u64) -> ShareMap<u64> {
    let mut left_ns = dur_ns;
    let mut cut = ShareMap::only(Share::OF_EXITS, |share| {
        let ns = split[share].min(left_ns);
        left_ns -= ns;
        ns
    });
    cut[Share::Kvm] += left_ns;
    cut
}
