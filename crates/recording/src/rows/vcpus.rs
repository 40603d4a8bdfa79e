//! Converts columns back to vCPUs, their intervals and their exits.

use vmnoise_events::{
    Exit, ExitReason, Isa, ReasonTotals, Share, ShareMap, SourceId, Vcpu, VcpuClock, VcpuExit,
    VcpuId, VcpuInterval, VcpuIntervalKind, VcpuTotals, VmFact, VmIdentity,
};

use super::Rows;
use crate::schema::{counter, event};

impl Rows {
    /// Returns the vCPU of this row, and the index of the first row after the facts about its VM.
    pub(super) fn vcpu(&self, row: usize) -> Result<(Vcpu, usize), String> {
        let small = |name: &str| self.small_counter(row, name);
        let number = self.find_counter(row, counter::NUMBER);
        let mut vcpu = Vcpu {
            id: self.vcpu_id(row)?,
            tid: small(counter::TID)?,
            vmm_pid: small(counter::VMM_PID)?,
            number: number.map(|_| small(counter::NUMBER)).transpose()?,
            vm: self.counter(row, counter::VM)?,
            vm_name: self.name(row)?.into(),
            identity: VmIdentity::default(),
            sees_kvm: self.counter(row, counter::SEES_KVM)? != 0,
        };
        let mut next = row + 1;
        while self.event.find(next) == Some(event::VM_FACT) {
            if self.vcpu_id(next)? != vcpu.id {
                return Err(format!("row {next} belongs to the VM of another vCPU"));
            }
            let fact = self.kind(next, "fact of a VM", VmFact::from_number)?;
            vcpu.identity.learn(fact, self.name(next)?);
            next += 1;
        }
        Ok((vcpu, next))
    }

    pub(super) fn vcpu_clock(&self, row: usize) -> Result<VcpuClock, String> {
        let bits = self.counter(row, counter::RATIO_FRAC_BITS)?;
        Ok(VcpuClock {
            vcpu: self.vcpu_id(row)?,
            before_until_mono_ns: self.start_mono_ns.get(row)?,
            from_mono_ns: self.end_mono_ns.get(row)?,
            offset_tsc: self.counter(row, counter::OFFSET_TSC)?.cast_signed(),
            ratio: self.counter(row, counter::RATIO)?,
            ratio_frac_bits: u8::try_from(bits)
                .map_err(|_| format!("row {row} holds a scale of {bits} bits"))?,
        })
    }

    pub(super) fn vcpu_interval(&self, row: usize) -> Result<VcpuInterval, String> {
        Ok(VcpuInterval {
            vcpu: self.vcpu_id(row)?,
            kind: self.kind(row, "interval", VcpuIntervalKind::from_number)?,
            start_mono_ns: self.start_mono_ns.get(row)?,
            end_mono_ns: self.end_mono_ns.get(row)?,
            cpu: self.cpu.get(row)?,
            to_cpu: self.to_cpu.get(row)?,
            source: self.source.find(row).map(SourceId),
        })
    }

    pub(super) fn vcpu_exit(&self, row: usize) -> Result<VcpuExit, String> {
        Ok(VcpuExit {
            vcpu: self.vcpu_id(row)?,
            exit: Exit {
                start_mono_ns: self.start_mono_ns.get(row)?,
                end_mono_ns: self.end_mono_ns.get(row)?,
                reason: self.reason(row)?,
                exit_cpu: self.cpu.get(row)?,
                entry_cpu: self.to_cpu.get(row)?,
                heavy: self.heavy_exits.get(row)? != 0,
                split: self.split(row),
            },
        })
    }

    /// Returns the totals that begin with this row, and the index of the first row after the
    /// totals.
    pub(super) fn vcpu_totals(&self, row: usize) -> Result<(VcpuTotals, usize), String> {
        let mut totals = VcpuTotals {
            vcpu: self.vcpu_id(row)?,
            first_mono_ns: self.start_mono_ns.get(row)?,
            last_mono_ns: self.end_mono_ns.get(row)?,
            exits: self.counter(row, counter::EXITS)?,
            heavy: self.counter(row, counter::HEAVY)?,
            split: self.split(row),
            unseen_ns: self.find_counter(row, counter::UNSEEN_NS).unwrap_or(0),
            worst: None,
            reasons: Vec::new(),
        };
        let mut next = row + 1;
        while let Some(number) = self.event.find(next)
            && matches!(number, event::REASON_TOTALS | event::LONGEST_EXIT)
        {
            if self.vcpu_id(next)? != totals.vcpu {
                return Err(format!("row {next} belongs to the totals of another vCPU"));
            }
            match number {
                event::REASON_TOTALS => totals.reasons.push(self.reason_totals(next)?),
                _ => totals.worst = Some(Box::new(self.vcpu_exit(next)?.exit)),
            }
            next += 1;
        }
        Ok((totals, next))
    }

    fn reason_totals(&self, row: usize) -> Result<ReasonTotals, String> {
        let has_reason = self.kind.find(row).is_some();
        Ok(ReasonTotals {
            reason: has_reason.then(|| self.reason(row)).transpose()?,
            count: self.counter(row, counter::EXITS)?,
            heavy: self.counter(row, counter::HEAVY)?,
            min_ns: self.counter(row, counter::MIN_NS)?,
            max_ns: self.counter(row, counter::MAX_NS)?,
            split: self.split(row),
            histogram: self
                .counters(row)
                .filter_map(|(name, count)| {
                    let edge_ns = name.strip_prefix(counter::UP_TO)?;
                    Some((edge_ns.parse::<u64>(), count))
                })
                .map(|(edge_ns, count)| match edge_ns {
                    Ok(edge_ns) => Ok((edge_ns, count)),
                    Err(_) => Err(format!("row {row} holds a length that is no number")),
                })
                .collect::<Result<_, _>>()?,
        })
    }

    fn vcpu_id(&self, row: usize) -> Result<VcpuId, String> {
        self.vcpu.get(row).map(VcpuId)
    }

    fn reason(&self, row: usize) -> Result<ExitReason, String> {
        Ok(ExitReason {
            isa: self.kind(row, "exit", Isa::from_number)?,
            code: self.counter(row, counter::CODE)?,
        })
    }

    pub(super) fn split(&self, row: usize) -> ShareMap<u64> {
        ShareMap::only(Share::OF_EXITS, |share| {
            self.find_counter(row, share.name()).unwrap_or(0)
        })
    }

    pub(super) fn small_counter(&self, row: usize, name: &str) -> Result<u32, String> {
        let value = self.counter(row, name)?;
        u32::try_from(value).map_err(|_| format!("row {row} holds {value} as counter `{name}`"))
    }
}
