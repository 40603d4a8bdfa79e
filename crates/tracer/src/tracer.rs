//! The witnesses of one run: loaded, attached, drained, and gone when dropped.

use std::{
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    sync::Arc,
};

use libbpf_rs::{Link, MapCore, Object};
use vmnoise_events::{Event, Loss, LossKind, OwnCost, ProbeStatus, Witnesses};
use vmnoise_host::Host;

use crate::{
    accounting,
    btf::KernelBtf,
    decode::Decoder,
    error::{LoadError, TraceError},
    exits::ReasonSource,
    interference_counter::InterferenceCounter,
    mapped::{MappedCounts, MappedCpus},
    object,
    observed::Observer,
    probes::{Kernel, Scope},
    records::Records,
    steal::{StealClock, Variable},
    steal_reader::StealReader,
    timer_steps::TimerSteps,
    watched::Watched,
    wire::Mode,
};

/// BPF programs that witness what the host does on the measured CPUs. Everything
/// is held by file descriptors of this process: when it ends, however it ends,
/// nothing of ours remains in the kernel.
#[derive(Debug)]
pub struct Tracer {
    // Dropped first: nothing runs any more while the rest goes.
    links: Vec<Link>,
    records: Records<Decoder>,
    object: Rc<Object>,
    cpus: Arc<MappedCpus>,
    counts: MappedCounts,
    measured: Vec<u32>,
    scope: Scope,
    watched: Watched,
    steal: StealClock,
    steal_sampled: bool,
}

impl Tracer {
    /// Opens and loads the programs for these CPUs and what runs on them; nothing
    /// runs yet.
    ///
    /// # Errors
    /// [`LoadError::Refused`] where this machine or these rights do not allow it,
    /// [`LoadError::Broken`] where they do and it fails.
    pub fn load(cpus: &[u32], scope: Scope) -> Result<Tracer, LoadError> {
        let host = Host::here();
        let btf = KernelBtf::read().map_err(|error| no_btf(&error))?;
        let hypervisor = host.hypervisor();
        let loaded = object::load(&btf, scope.groups(), hypervisor.is_some())?;
        let object = loaded.object;
        let broken = |what: &str, error: &dyn std::fmt::Display| {
            LoadError::Broken(format!("{what}: {error}"))
        };

        let map = |name: &str| {
            object
                .maps()
                .find(|map| map.name() == name)
                .ok_or_else(|| LoadError::Broken(format!("no map {name}")))
        };
        let slots = map("cpus")?.max_entries() as usize;
        let states = MappedCpus::map(map("cpus")?.as_fd(), slots)
            .map_err(|error| broken("mmap of the CPU states", &error))?;
        let counts = MappedCounts::map(map("exits")?.as_fd(), slots)
            .map_err(|error| broken("mmap of the exit counters", &error))?;
        if let Some(cpu) = cpus.iter().find(|&&cpu| !states.exists(cpu)) {
            return Err(LoadError::Broken(format!("CPU {cpu} does not exist")));
        }

        let records = Records::of(&object)?;
        let steal = hypervisor.map_or(StealClock::NoGuest, |name| {
            StealClock::find(
                Some(&object),
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
            preempt_rt: host.is_preempt_rt(),
            ..Kernel::of(&host, &btf, &loaded.hooked, kvm_pvm)
        };
        let watched = Watched::new(scope.groups(), loaded.absent, &kernel);
        Ok(Tracer {
            links: Vec::new(),
            records,
            object: Rc::new(object),
            cpus: Arc::new(states),
            counts,
            measured: cpus.to_vec(),
            scope,
            watched,
            steal,
            steal_sampled,
        })
    }

    /// The live exit counters as a file to map, and its length in bytes, a whole
    /// number of pages: one slot per CPU in the layout of
    /// [`vmnoise_events::exit_counts`]. Mapped as guest memory, a guest reads live
    /// counts with no copying thread.
    ///
    /// # Errors
    /// If this process may not open another file.
    pub fn exit_counts(&self) -> std::io::Result<(OwnedFd, usize)> {
        let exits = self.object.maps().find(|map| map.name() == "exits");
        let exits = exits.expect("the map was there when the programs were loaded");
        Ok((exits.as_fd().try_clone_to_owned()?, self.counts.len()))
    }

    /// Names the thread that is the vCPU of a CPU: its absence is what is explained,
    /// and its own work is no activity. `tid` is the kernel's thread id.
    ///
    /// # Errors
    /// If the CPU is not measured, or programs are attached already.
    pub fn watch(&mut self, cpu: u32, tid: u32) -> Result<(), TraceError> {
        if !self.measured.contains(&cpu) {
            return Err(TraceError::NotMeasured(cpu));
        }
        if !self.links.is_empty() {
            return Err(TraceError::AlreadyAttached(cpu));
        }
        self.cpus.set_vcpu(cpu, tid);
        if self.scope == Scope::Observed {
            self.cpus.set_observed(cpu);
        }
        Ok(())
    }

    /// Attaches every group that can be attached; the programs run from here. A
    /// group that cannot is reported by [`Tracer::probe_statuses`].
    ///
    /// # Errors
    /// If no group at all can be attached.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        self.links = self.watched.attach(&self.object);
        if self.links.is_empty() {
            let why = self.watched.absent().values().next();
            return Err(TraceError::NothingAttached(
                why.cloned().unwrap_or_default(),
            ));
        }
        // Only now do the programs look at events: all begin at once, so that no
        // begin is seen without the program that sees its end.
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

    /// Which events this run can see. The workload knows about `steal_clock`; here
    /// it is false.
    pub fn witnesses(&self) -> Witnesses {
        Witnesses {
            activity_steal: self.steal_sampled,
            ..self.watched.witnesses()
        }
    }

    /// How each group of events is witnessed, and what is missing.
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

    /// Hands over everything that has been witnessed since the last call. Each
    /// source comes before its first activity. An activity comes once it is over,
    /// and a sleep once the thread runs again, so all that fills a gap is in the
    /// ring before the gap ends. Call it from a CPU that is not measured, a few
    /// times a second.
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
        self.records.drain(sink)
    }

    /// Hands over the stops of watched threads that are not over yet, up to the end of the run. Call
    /// it before the last [`Tracer::drain`], which reports those that end in between once more.
    pub fn unfinished_stops(&self, end_mono_ns: u64, sink: &mut dyn FnMut(Event)) {
        for &cpu in &self.measured {
            if let Some(since_ns) = self.cpus.held_since(cpu)
                && since_ns < end_mono_ns
            {
                let report = |decoder: &mut Decoder| {
                    decoder.stopped(cpu, since_ns, end_mono_ns, &mut *sink);
                };
                self.records.ask(report);
            }
        }
    }

    /// What was lost since start, kind by kind; a count that is 0 is known to be 0.
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
        if let Ok(count) = accounting::recursion_misses(&self.object) {
            losses.push(Loss {
                kind: LossKind::Recursion,
                count,
            });
        }
        losses
    }

    /// What the programs have cost since [`Tracer::attach`]; `None` while they have not
    /// run.
    pub fn own_cost(&self) -> Option<OwnCost> {
        self.cpus.own_cost()
    }

    /// Exits of this CPU's vCPU that were handled in the host kernel; `None` where
    /// `kvm_exit` has not fired: it never does under kvm_pvm.
    pub fn light_exits(&self, cpu: u32) -> Option<u64> {
        let seen = self.witnesses().kvm_exit && self.cpus.exits_fire(cpu);
        seen.then(|| self.counts.light(cpu))
    }

    /// Exits of this CPU's vCPU that went to the VMM; `None` where they are not seen.
    pub fn heavy_exits(&self, cpu: u32) -> Option<u64> {
        let seen = self.witnesses().kvm_run && self.measured.contains(&cpu);
        seen.then(|| self.counts.heavy(cpu))
    }

    /// The live interference counters of a measured CPU, for the thread that polls on
    /// it; they count from [`Tracer::attach`] on. `None` where the witnesses of
    /// interrupts or threads are missing: a counter that stands still would say
    /// nothing then.
    pub fn interference_counter(&self, cpu: u32) -> Option<InterferenceCounter> {
        let has = self.witnesses();
        let witnessed = has.irq && has.sched;
        if !witnessed || !self.measured.contains(&cpu) {
            return None;
        }
        InterferenceCounter::new(Arc::clone(&self.cpus), cpu)
    }

    /// The steps of the wake-up under way, for the periodic task of a measured CPU. `None`
    /// where timers or switches are not witnessed.
    pub fn timer_steps(&self, cpu: u32) -> Option<TimerSteps> {
        let has = self.witnesses();
        let witnessed = has.timer && has.sched;
        if !witnessed || !self.measured.contains(&cpu) {
            return None;
        }
        TimerSteps::new(Arc::clone(&self.cpus), cpu)
    }

    /// What looks at observed threads ([`Scope::Observed`]) once the programs are attached.
    pub fn observer(&self) -> Observer {
        Observer {
            object: Rc::clone(&self.object),
            cpus: Arc::clone(&self.cpus),
            steal: self.steal,
            steal_sampled: self.steal_sampled,
        }
    }

    /// This machine's own steal clock of a CPU in ns since boot, by the best source
    /// there is ([`Tracer::probe_statuses`] names it); `None` where it has none.
    pub fn outer_steal_ns(&self, cpu: u32) -> Option<u64> {
        self.steal.read_ns(&self.object, cpu)
    }

    /// The same clock for the thread that polls on a measured CPU, at the price of one
    /// system call; one reader per CPU. `None` where activities are not sampled with it
    /// ([`Tracer::probe_statuses`] says why), or this process may not open another file.
    pub fn steal_reader(&self, cpu: u32) -> Option<StealReader> {
        if !self.steal_sampled || !self.measured.contains(&cpu) {
            return None;
        }
        let mut programs = self.object.progs();
        let program = programs.find(|program| program.name() == "read_own_steal")?;
        let program = program.as_fd().try_clone_to_owned().ok()?;
        let cpus = Arc::clone(&self.cpus);
        let reloads = self.steal.counts_reloads();
        Some(StealReader::new(program, cpus, cpu, reloads))
    }
}

impl Drop for Tracer {
    /// Ends all CPUs' streams at once, before programs go one by one: otherwise ends
    /// would miss their begins, and be counted.
    fn drop(&mut self) {
        for cpu in self.cpus.all() {
            self.cpus.set_mode(cpu, Mode::VMNOISE_OFF);
        }
    }
}

pub(crate) fn no_btf(error: &libbpf_rs::Error) -> LoadError {
    LoadError::Refused {
        why: format!("the kernel's type information (BTF) cannot be read: {error:#}"),
        remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF, and mount /sys".to_owned(),
    }
}
