//! The BPF programs of one run: loading, attaching, and reading their events.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use vmnoise_events::{Event, Loss, LossKind, OwnCost, ProbeStatus, Witnesses};
use vmnoise_host::Host;

use crate::{
    btf::KernelBtf,
    decode::RecordDecoder,
    error::{LoadError, TraceError},
    exits::ReasonSource,
    interference_counter::MappedInterferences,
    mapped::{MappedCounts, MappedCpus},
    maps::Maps,
    noise,
    object::Programs,
    observed::Observer,
    probes::{Kernel, Scope},
    records::Records,
    steal::{StealClock, Variable},
    steal_reader::OwnStealReader,
    timer_steps::MappedTimerSteps,
    watched::Watched,
    wire::Mode,
};

/// BPF programs that observe what the host does on the measured CPUs. The kernel keeps the programs
/// and maps only as long as this process has their file descriptors. So nothing remains in the
/// kernel after the process has ended, even after a crash.
#[derive(Debug)]
pub struct Tracer {
    // This field is dropped first, so that no program runs while the other fields are dropped.
    programs: Programs,
    records: Records<RecordDecoder>,
    cpus: Arc<MappedCpus>,
    counts: MappedCounts,
    measured: Vec<u32>,
    scope: Scope,
    watched: Watched,
    steal: StealClock,
    steal_sampled: bool,
}

impl Tracer {
    /// Opens and loads the programs for these CPUs and their threads. Nothing runs yet.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine does not allow BPF, or this process has no right to
    /// use it. [`LoadError::Broken`] if BPF is allowed, but the programs do not load.
    pub fn load(cpus: &[u32], scope: Scope) -> Result<Tracer, LoadError> {
        let host = Host::here();
        let btf = KernelBtf::read()?;
        let hypervisor = host.hypervisor();
        let (programs, absent) = noise::load(&btf, scope.groups(), hypervisor.is_some())?;
        let broken = |what: &str, error: &dyn std::fmt::Display| {
            LoadError::Broken(format!("{what}: {error}"))
        };

        let states = MappedCpus::map(&programs)
            .map_err(|error| broken("mmap of the CPU states", &error))?;
        let counts = MappedCounts::map(&programs)
            .map_err(|error| broken("mmap of the exit counters", &error))?;
        if let Some(cpu) = cpus.iter().find(|&&cpu| !states.exists(cpu)) {
            return Err(LoadError::Broken(format!("CPU {cpu} does not exist")));
        }

        let records = Records::of(&programs)?;
        let steal = hypervisor.map_or(StealClock::NoGuest, |name| {
            StealClock::find(
                &programs,
                Variable::of(btf.minus_run_queue, &name),
                &|cpu| states.run_queue(cpu),
                cpus,
            )
        });
        let steal_sampled = steal.sample(&states, cpus);
        let reasons = ReasonSource::of(host.kvm_module().as_deref(), &btf);
        let kvm_pvm = reasons == ReasonSource::KvmRun;
        let kernel = Kernel {
            has_reasons: reasons != ReasonSource::Unread,
            ..Kernel::of(&host, &btf, &programs.hooked(), kvm_pvm)
        };
        let watched = Watched::new(scope.groups(), absent, &kernel);
        if host.is_preempt_rt() {
            states
                .all()
                .for_each(|cpu| states.set_softirq_preemptible(cpu));
        }
        Ok(Tracer {
            programs,
            records,
            cpus: Arc::new(states),
            counts,
            measured: cpus.to_vec(),
            scope,
            watched,
            steal,
            steal_sampled,
        })
    }

    /// Returns the live exit counters as a file that can be mapped, and its length in bytes. The
    /// length is a whole number of pages. The file has one slot per CPU in the layout of
    /// [`vmnoise_events::exit_counts`]. A guest that has this file mapped as memory reads live
    /// counts, without a thread that copies them.
    ///
    /// # Errors
    /// If this process may not open another file.
    pub fn exit_counts(&self) -> std::io::Result<(OwnedFd, usize)> {
        let exits = self.programs.map("exits");
        Ok((exits.as_fd().try_clone_to_owned()?, self.counts.len()))
    }

    /// Sets the thread of the vCPU that runs on a CPU. The tracer reports why this thread is off
    /// the CPU, and does not report the thread's own work as an activity. `tid` is the kernel's
    /// thread id.
    ///
    /// # Errors
    /// If the CPU is not measured, or if programs are already attached.
    pub fn watch(&mut self, cpu: u32, tid: u32) -> Result<(), TraceError> {
        if !self.measured.contains(&cpu) {
            return Err(TraceError::NotMeasured(cpu));
        }
        if self.programs.is_attached() {
            return Err(TraceError::AlreadyAttached(cpu));
        }
        self.cpus.set_vcpu(cpu, tid);
        if self.scope == Scope::Observed {
            self.cpus.set_observed(cpu);
        }
        Ok(())
    }

    /// Attaches all groups that can be attached. The programs run from now on.
    /// [`Tracer::probe_statuses`] reports the groups that cannot be attached.
    ///
    /// # Errors
    /// If no group can be attached.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        self.programs.hold(self.watched.attach(&self.programs));
        if !self.programs.is_attached() {
            let why = self.watched.absent().values().next();
            return Err(TraceError::NothingAttached(
                why.cloned().unwrap_or_default(),
            ));
        }
        // The programs count events only from now on. All programs begin at once, so the begin of
        // an activity is counted only if its end can be counted too.
        for cpu in self.cpus.all() {
            let mode = if self.measured.contains(&cpu) {
                Mode::VMNOISE_MEASURED
            } else {
                Mode::VMNOISE_TRACKED
            };
            self.cpus.set_mode(cpu, mode);
        }
        Ok(())
    }

    /// Returns which events this run can observe. `steal_clock` is false here, because only the
    /// workload knows it.
    pub fn witnesses(&self) -> Witnesses {
        Witnesses {
            activity_steal: self.steal_sampled,
            ..self.watched.witnesses()
        }
    }

    /// Returns the status of each group of events.
    pub fn probe_statuses(&self) -> Vec<ProbeStatus> {
        let mut probe_statuses: Vec<ProbeStatus> = self
            .watched
            .probe_statuses()
            .map(|(_, probe_status)| probe_status)
            .collect();
        probe_statuses.push(self.steal.probe_status());
        probe_statuses.push(self.steal.sampling_status(self.steal_sampled));
        probe_statuses
    }

    /// Sends all events since the last call to `sink`. Each source is sent before its first
    /// activity. An activity is sent when it is over, and a sleep when the thread runs again. So
    /// all activities in a gap are in the ring buffer before the gap ends. Call this function a few
    /// times a second, on a CPU that is not measured.
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
        self.records.drain(sink)
    }

    /// Sends to `sink` the stops of watched threads that are not over at the end of the run. Call
    /// this function before the last [`Tracer::drain`]. If such a stop ends between the two calls,
    /// the drain reports the stop again.
    pub fn unfinished_stops(&self, end_mono_ns: u64, sink: &mut dyn FnMut(Event)) {
        for &cpu in &self.measured {
            if let Some(since_ns) = self.cpus.held_since(cpu)
                && since_ns < end_mono_ns
            {
                let report = |decoder: &mut RecordDecoder| {
                    decoder.stopped(cpu, since_ns, end_mono_ns, &mut *sink);
                };
                self.records.ask(report);
            }
        }
    }

    /// Returns the number of losses since the start, by kind. A count of 0 means that nothing was
    /// lost.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = vec![
            Loss {
                kind: LossKind::RingFull,
                count: self.cpus.ring_full(),
            },
            Loss {
                kind: LossKind::Unpaired,
                count: self.cpus.unpaired(),
            },
            Loss {
                kind: LossKind::Undecodable,
                count: self.records.undecodable(),
            },
        ];
        if let Ok(count) = self.programs.missed() {
            losses.push(Loss {
                kind: LossKind::Recursion,
                count,
            });
        }
        losses
    }

    /// Returns the cost of the programs since [`Tracer::attach`]; `None` before their first timed
    /// run.
    pub fn own_cost(&self) -> Option<OwnCost> {
        self.cpus.own_cost()
    }

    /// Returns how many exits of this CPU's vCPU the host's kernel has handled alone; `None` if
    /// `kvm_exit` has not fired. Under kvm_pvm, `kvm_exit` never fires.
    pub fn light_exits(&self, cpu: u32) -> Option<u64> {
        let seen = self.witnesses().kvm_exit && self.cpus.exits_fire(cpu);
        seen.then(|| self.counts.light(cpu))
    }

    /// Returns how many exits of this CPU's vCPU went to the VMM; `None` if no program observes
    /// these exits.
    pub fn heavy_exits(&self, cpu: u32) -> Option<u64> {
        let seen = self.witnesses().kvm_run && self.measured.contains(&cpu);
        seen.then(|| self.counts.heavy(cpu))
    }

    /// Returns the live interference counters of a measured CPU, for the thread that polls on this
    /// CPU. The counters begin at [`Tracer::attach`]. `None` if interrupts or threads are not
    /// observed, because a counter that does not change would then mean nothing.
    pub fn interference_counter(&self, cpu: u32) -> Option<MappedInterferences> {
        let has = self.witnesses();
        let witnessed = has.irq && has.sched;
        if !witnessed || !self.measured.contains(&cpu) {
            return None;
        }
        MappedInterferences::new(Arc::clone(&self.cpus), cpu)
    }

    /// Returns the times of the current wake-up of the periodic task on a measured CPU. `None` if
    /// timers or switches are not observed.
    pub fn timer_steps(&self, cpu: u32) -> Option<MappedTimerSteps> {
        let has = self.witnesses();
        let witnessed = has.timer && has.sched;
        if !witnessed || !self.measured.contains(&cpu) {
            return None;
        }
        MappedTimerSteps::new(Arc::clone(&self.cpus), cpu)
    }

    /// Returns the reader of observed threads ([`Scope::Observed`]). Call it after the programs are
    /// attached.
    pub fn observer(&self) -> Observer {
        Observer {
            object: self.programs.object(),
            cpus: Arc::clone(&self.cpus),
            steal: self.steal,
            steal_sampled: self.steal_sampled,
        }
    }

    /// Returns the steal time of a CPU of this machine since boot, in ns. It comes from the best
    /// available source, which [`Tracer::probe_statuses`] names. `None` if there is no source.
    pub fn outer_steal_ns(&self, cpu: u32) -> Option<u64> {
        self.steal.read_ns(&self.programs, cpu)
    }

    /// Returns a reader of the steal time for the thread that polls on a measured CPU. One reading
    /// costs one system call, and each CPU has at most one reader. `None` if the programs do not
    /// sample the steal clock ([`Tracer::probe_statuses`] names the reason). `None` also if this
    /// process may not open another file.
    pub fn steal_reader(&self, cpu: u32) -> Option<OwnStealReader> {
        if !self.steal_sampled || !self.measured.contains(&cpu) {
            return None;
        }
        let mut programs = self.programs.progs();
        let program = programs.find(|program| program.name() == "read_own_steal")?;
        let program = program.as_fd().try_clone_to_owned().ok()?;
        let cpus = Arc::clone(&self.cpus);
        let reloads = self.steal.counts_reloads();
        Some(OwnStealReader::new(program, cpus, cpu, reloads))
    }
}

impl Drop for Tracer {
    /// Stops the event streams of all CPUs at once, before the programs are detached one by one.
    /// Otherwise some events would be counted as lost, because only their begin was seen.
    fn drop(&mut self) {
        for cpu in self.cpus.all() {
            self.cpus.set_mode(cpu, Mode::VMNOISE_OFF);
        }
    }
}
