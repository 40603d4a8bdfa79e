//! Data that pass 1 of a join keeps of the host's recording: vCPUs, their clocks, and their exits.

use std::collections::BTreeMap;

use vmnoise_events::{
    Share, Vcpu, VcpuClock, VcpuExit, VcpuId, VcpuInterval, VcpuIntervalKind, VcpuTotals,
};

use super::guest_clock::GuestClock;

/// One vCPU, as the host reported it.
#[derive(Debug, Default)]
pub(super) struct ReportedVcpu {
    /// Latest definition of the vCPU.
    pub(super) vcpu: Option<Vcpu>,
    pub(super) clock: GuestClock,
    /// Start and end of the vCPU's exits, in nanoseconds of the host's CLOCK_MONOTONIC. If the
    /// workload polls, halts are left out, because the guest slept during a halt. If the recording
    /// lacks the exits that KVM handled itself, this list also has the vCPU's waits for a CPU
    /// between the recorded exits.
    pub(super) away: Vec<Span>,
    /// Number of exits or waits that started on each CPU of the host.
    at_cpu: BTreeMap<u32, u64>,
    /// Time from the start of the first exit or interval to the end of the last.
    reported: Option<Span>,
    /// First and last time by the kernel's own sums, which include exits that the recording leaves
    /// out.
    counted: Option<Span>,
}

/// Start and end on the host's CLOCK_MONOTONIC, in nanoseconds.
type Span = (u64, u64);

/// All vCPUs of the host's recording, indexed by id.
#[derive(Debug)]
pub(super) struct ReportedVcpus {
    all: Vec<ReportedVcpu>,
    keeps_halts: bool,
}

impl ReportedVcpus {
    /// Creates an empty set. `keeps_halts` is true for a guest whose tasks sleep: halts are then
    /// kept like other exits.
    pub(super) fn new(keeps_halts: bool) -> ReportedVcpus {
        ReportedVcpus {
            all: Vec::new(),
            keeps_halts,
        }
    }

    pub(super) fn define(&mut self, vcpu: &Vcpu) {
        let place = vcpu.id.0 as usize;
        // Ids are assigned without gaps; only a damaged stream has another id.
        if place == self.all.len() {
            self.all.push(ReportedVcpu::default());
        }
        if let Some(reported) = self.all.get_mut(place) {
            reported.vcpu = Some(vcpu.clone());
        }
    }

    pub(super) fn add_clock(&mut self, clock: &VcpuClock) {
        if let Some(reported) = self.all.get_mut(clock.vcpu.0 as usize) {
            reported.clock.add(clock);
        }
    }

    /// Takes an exit. Returns whether the exit was kept as evidence.
    pub(super) fn add_exit(&mut self, exit: &VcpuExit, threshold_ns: u64, has_room: bool) -> bool {
        let of = &exit.exit;
        let span = (of.start_mono_ns, of.end_mono_ns);
        let has_room = has_room && (self.keeps_halts || of.split[Share::Halted] == 0);
        let Some(reported) = self.all.get_mut(exit.vcpu.0 as usize) else {
            return false;
        };
        reported.was_there(span);
        reported.add(of.exit_cpu, span, threshold_ns, has_room)
    }

    /// Takes an interval. Returns whether the interval was kept as evidence.
    pub(super) fn add_interval(
        &mut self,
        interval: &VcpuInterval,
        threshold_ns: u64,
        has_room: bool,
    ) -> bool {
        let Some(reported) = self.all.get_mut(interval.vcpu.0 as usize) else {
            return false;
        };
        let span = (interval.start_mono_ns, interval.end_mono_ns);
        reported.was_there(span);
        let hides_kvm = reported.vcpu.as_ref().is_some_and(|vcpu| !vcpu.sees_kvm);
        let is_wait = interval.kind == VcpuIntervalKind::Waiting;
        hides_kvm && is_wait && reported.add(interval.cpu, span, threshold_ns, has_room)
    }

    pub(super) fn add_totals(&mut self, totals: &VcpuTotals) {
        let reported = self.all.get_mut(totals.vcpu.0 as usize);
        // `first_mono_ns` is 0 if the vCPU never entered its guest.
        if let Some(reported) = reported.filter(|_| totals.first_mono_ns > 0) {
            reported.counted = Some((totals.first_mono_ns, totals.last_mono_ns));
        }
    }

    /// Sorts the exits, which came in the order of their ends.
    pub(super) fn sort(&mut self) {
        for reported in &mut self.all {
            reported.away.sort_unstable();
        }
    }

    pub(super) fn get(&self, id: VcpuId) -> Option<&ReportedVcpu> {
        self.all.get(id.0 as usize)
    }

    /// Returns the vCPUs that were defined.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vcpu, &ReportedVcpu)> {
        let defined = self.all.iter();
        defined.filter_map(|reported| Some((reported.vcpu.as_ref()?, reported)))
    }
}

impl ReportedVcpu {
    /// Returns the first and the last time at which the vCPU is known to have been on this host;
    /// `None` without such a time.
    ///
    /// `reports_all` is true if the recording leaves out no exit. Exits that only the kernel's sums
    /// contain were then lost, so the time around them does not count.
    pub(super) fn there_ns(&self, reports_all: bool) -> Option<Span> {
        let spans = [self.reported, self.counted.filter(|_| !reports_all)];
        spans.into_iter().flatten().reduce(hull)
    }

    fn was_there(&mut self, span: Span) {
        self.reported = Some(self.reported.map_or(span, |there| hull(there, span)));
    }

    fn add(&mut self, cpu: u32, span: Span, threshold_ns: u64, has_room: bool) -> bool {
        *self.at_cpu.entry(cpu).or_default() += 1;
        let is_observed = span.1.checked_sub(span.0) >= Some(threshold_ns);
        let is_kept = has_room && is_observed;
        if is_kept {
            self.away.push(span);
        }
        is_kept
    }

    /// Returns the host CPU on which the vCPU was most often.
    pub(super) fn home_cpu(&self) -> Option<u32> {
        let most = self.at_cpu.iter().max_by_key(|(_, count)| **count);
        most.map(|(cpu, _)| *cpu)
    }
}

fn hull(a: Span, b: Span) -> Span {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Returns a key that identifies the vCPU's VM, even among several VMs of one process.
pub(super) fn vm_of(vcpu: &Vcpu) -> (u32, u64) {
    (vcpu.vmm_pid, vcpu.vm)
}

/// Returns the name of a vCPU for people.
pub(super) fn name_of(vcpu: &Vcpu) -> String {
    match vcpu.number {
        Some(number) => format!("vCPU {number} of VM {}", vm_name_of(vcpu)),
        None => format!("the vCPU of thread {} of VM {}", vcpu.tid, vm_name_of(vcpu)),
    }
}

/// Returns the name of the vCPU's VM for people.
pub(super) fn vm_name_of(vcpu: &Vcpu) -> String {
    format!("{} (process {})", vcpu.vm_name, vcpu.vmm_pid)
}
