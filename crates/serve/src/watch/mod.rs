//! Polls the gate, and keeps the lost time of each VM.

mod dumping;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_events::{Name, VmIdentity};
use vmnoise_host::{CgroupNames, Host, VcpuThread, VmProcess};
use vmnoise_serve_arguments::ServeArguments;
use vmnoise_tracer::{Gate, GateSlot, GateVcpuId, TraceError, VcpuBooks, WalkedVcpu};
use vmnoise_workload::tsc;

use crate::breaker::{Advice, Breaker};
use crate::clock::{now_ns, own_cpu};
use crate::dumps::Dumps;
use crate::exits::{Asked, Exits, Refusal};
use crate::flight::{Clocks, Member, Snapshot, Snapshots, Spent};
use crate::host_asking::HostAsking;
use crate::labels;
use crate::ledger::VmTotals;
use crate::machine::Machine;
use crate::own_cpus::OwnCpus;
use crate::proc_sums::Lacking;
use crate::say::say;
use crate::who::Who;

/// Largest number of ended VMs that are still exported, so that a later scrape finds their last
/// sums.
const ENDED: usize = 256;
/// Largest number of vCPUs whose VM is remembered. Ended vCPUs are remembered too, because another
/// vCPU may have waited for them.
const NAMED: usize = 65_536;

/// Largest number of vCPUs with their own series. OpenTelemetry limits a family of metrics to 2000
/// series. Each vCPU has six series, one for each cause of lost time.
pub(crate) const TOLD_VCPUS: usize = 2_000 / 6;

/// State of the main loop: everything that is known about this host's VMs.
#[derive(Debug)]
pub(crate) struct Watch {
    gate: Gate,
    host: Host,
    vms: BTreeMap<u32, VmTotals>,
    ended: VecDeque<VmTotals>,
    /// VMs whose end the last poll noticed.
    left: Vec<VmTotals>,
    /// Process id of the VMM for each slot of the gate's table.
    vmms: BTreeMap<GateSlot, u32>,
    /// VM and thread of each vCPU. Ended vCPUs are included.
    members: BTreeMap<GateVcpuId, Arc<Member>>,
    clocks: Clocks,
    cgroups: CgroupNames,
    machine: Machine,
    snapshots: Snapshots,
    /// Times of the vCPUs that ended after the last snapshot.
    gone: BTreeMap<GateVcpuId, Spent>,
    dumps: Option<Dumps>,
    exits: Option<Exits>,
    own_cpus: Option<OwnCpus>,
    host_asking: Option<HostAsking>,
    /// Whether vCPUs are exported one by one.
    by_vcpu: bool,
    without_room: u32,
    missed: u64,
    breaker: Breaker,
    pauses: u64,
}

impl Watch {
    /// Loads and attaches the gate's programs.
    pub(crate) fn begin(arguments: &ServeArguments) -> Result<Watch> {
        let host = Host::here();
        let machine = Machine::read(&host)?;
        let cpus = host.online_cpus().context("reading the online CPUs")?;
        let cpus = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        let mut gate = Gate::load(arguments.vcpus, arguments.history_bytes())?;
        gate.attach()?;
        let own_cpus = OwnCpus::begin();
        let mut watch = Watch {
            gate,
            host,
            vms: BTreeMap::new(),
            ended: VecDeque::new(),
            left: Vec::new(),
            vmms: BTreeMap::new(),
            members: BTreeMap::new(),
            clocks: Clocks::here(),
            cgroups: CgroupNames::new(Host::here()),
            machine,
            snapshots: Snapshots::default(),
            gone: BTreeMap::new(),
            dumps: None,
            exits: None,
            own_cpus,
            host_asking: None,
            by_vcpu: arguments.per_vcpu,
            without_room: 0,
            missed: 0,
            breaker: Breaker::new(arguments.cost_limit / 100.0, cpus),
            pauses: 0,
        };
        watch.look()?;
        Ok(watch)
    }

    /// Finds new and ended vCPUs, and reads the counters of all vCPUs.
    ///
    /// # Errors
    /// If the kernel refuses the walk over tasks. Known vCPUs stay known.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.mind_cost();
        if self.gate.is_paused() {
            let forgotten = self.gate.forget();
            self.take_in_all();
            return forgotten;
        }
        let look = self.gate.look();
        self.left.clear();
        if let Ok(look) = &look {
            self.without_room = look.without_room;
            for found in &look.came {
                self.came(found);
            }
            if !look.came.is_empty() {
                self.look_at_clocks();
            }
            for (found, books) in &look.ended {
                let now_ns = now_ns();
                self.take_in(found.place, books, now_ns);
                self.gone.insert(found.id, Spent::of(books, now_ns));
            }
        }
        self.take_in_all();
        for (found, _) in look.iter().flat_map(|look| &look.ended) {
            self.end(found.place);
        }
        if self.snapshots.wants(now_ns()) {
            let snapshot = self.snapshot();
            self.snapshots.push(snapshot);
            self.gone.clear();
        }
        self.dump_if_due();
        if let (Some(asking), Some(own_cpus)) = (&mut self.host_asking, &self.own_cpus) {
            asking.look(&own_cpus.all().steal.lengths, now_ns());
        }
        self.take_turns();
        look.map(|_| ())
    }

    /// Detaches the programs if their total cost exceeds the limit. Attaches them again at the end
    /// of the pause.
    fn mind_cost(&mut self) {
        let now = Duration::from_nanos(now_ns());
        let exits_ns = self.exits.as_ref().map_or(0, Exits::probe_ns);
        let cost = own_cpu() + Duration::from_nanos(self.probe_ns() + exits_ns);
        match self.breaker.look(now, cost) {
            Advice::GoOn => {}
            Advice::Pause { cost, length } => {
                let cost = format!(
                    "its cost is {:.2} % of the CPUs, more than --cost-limit allows",
                    cost * 100.0
                );
                let until_ns = (now + length).as_nanos() as u64;
                if self.exits.as_mut().is_some_and(|it| it.rest(until_ns)) {
                    self.breaker.spare();
                    say(&format!("{cost}: no exits are recorded for {length:?}"));
                    return;
                }
                self.take_in_all();
                self.gate.pause(now_ns());
                if let Some(own_cpus) = &mut self.own_cpus {
                    own_cpus.pause();
                }
                self.pauses += 1;
                say(&format!("{cost}: vCPUs are not watched for {length:?}"));
            }
            Advice::Resume => match self.attach() {
                Ok(()) => say("vCPUs are watched again"),
                Err(error) => {
                    let length = self.breaker.wait_on(now);
                    say(&format!(
                        "vCPUs cannot be watched again: {error}; the next attempt is in {length:?}"
                    ));
                }
            },
        }
    }

    /// Attaches the programs again. If this fails, no program of the gate is attached.
    fn attach(&mut self) -> Result<(), TraceError> {
        self.gate.attach()?;
        // The gate runs without the programs for this machine's own CPUs if these cannot be
        // attached. The same applies at the start.
        if let Some(Err(error)) = self.own_cpus.as_mut().map(OwnCpus::attach) {
            say(&format!(
                "this machine's own CPUs are not watched again: {error}"
            ));
        }
        Ok(())
    }

    /// Returns how often the programs were detached because their cost exceeded `--cost-limit`.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses
    }

    /// Returns whether the programs are detached because of their cost.
    pub(crate) fn is_paused(&self) -> bool {
        self.gate.is_paused()
    }

    /// Confirms the states of all vCPUs. Then adds the final time of the vCPUs that were present at
    /// the last poll.
    pub(crate) fn take_in_now(&mut self) {
        self.confirm();
        self.take_in_all();
    }

    /// Makes the time of all vCPUs until now final, except for current waits. Does nothing during a
    /// pause. If the walk over all tasks fails, the time becomes final at a later walk.
    fn confirm(&self) {
        if !self.gate.is_paused() {
            let _ = self.gate.confirm();
        }
    }

    /// Reads the counters of all vCPUs that were present at the last poll, and adds their final
    /// time.
    fn take_in_all(&mut self) {
        let places: Vec<GateSlot> = self.gate.present().map(|found| found.place).collect();
        for place in places {
            let now_ns = now_ns();
            if let Some(books) = self.gate.books(place) {
                self.take_in(place, &books, now_ns);
            }
        }
        // A counter that cannot be read keeps its last value.
        self.missed = self.gate.missed().unwrap_or(self.missed);
        if let Some(own_cpus) = &mut self.own_cpus {
            own_cpus.take_in();
        }
    }

    /// Enables automatic dumps. From now on, each reason causes a dump.
    pub(crate) fn write_dumps(&mut self, dumps: Dumps) {
        self.dumps = Some(dumps);
    }

    /// Enables requests to the host. From now on, each reason causes a request for a dump.
    ///
    /// # Errors
    /// If the steal time of this machine is unknown.
    pub(crate) fn ask_host(&mut self, asking: HostAsking) -> Result<(), Lacking> {
        if self.own_cpus.is_none() {
            return Err(Lacking(
                "--ask-host needs a guest with a steal clock: `vmnoise doctor` shows whether this machine has one",
            ));
        }
        self.host_asking = Some(asking);
        Ok(())
    }

    /// Enables the recording of exits by `exits`.
    pub(crate) fn look_at_exits(&mut self, exits: Exits) {
        self.exits = Some(exits);
    }

    /// Returns the facts about this machine.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Records the exits of one VM after the other, if this is enabled.
    fn take_turns(&mut self) {
        let Some(exits) = &mut self.exits else {
            return;
        };
        let turn = exits.turn(now_ns(), self.vms.keys().copied());
        let is_present = |name: &Name| self.vms.values().any(|vm| vm.label == *name);
        exits.are_present(is_present);
        if let Some(vm) = turn.and_then(|process| self.vm_of(process))
            && let Some(exits) = &self.exits
        {
            exits.take_turn(vm);
        }
    }

    /// Records all exits of a VM for `length`, as a client requested.
    ///
    /// # Errors
    /// If this is impossible now, or not enabled.
    pub(crate) fn request_exits(&self, vm: &Name, length: Duration) -> Result<Asked, Refusal> {
        let exits = self.exits.as_ref().filter(|it| it.takes_requests());
        let exits = exits.ok_or(Refusal::NotOffered)?;
        if self.gate.is_paused() {
            return Err(Refusal::Rests);
        }
        let vm = self.vm_called(vm).ok_or(Refusal::Unknown)?;
        exits.request(vm, length)
    }

    fn vm_called(&self, label: &Name) -> Option<VmProcess> {
        let mut vms = self.vms.iter();
        let (process, _) = vms.find(|(_, vm)| vm.label == *label)?;
        self.vm_of(*process)
    }

    /// Returns the VM of a process in the form that the recorder of exits needs. vCPUs without a
    /// known number are left out. The recorder finds them at their first exit.
    fn vm_of(&self, process: u32) -> Option<VmProcess> {
        let vm = self.vms.get(&process)?;
        let its = self.gate.present().filter(|found| found.tgid == process);
        let vcpus = its.filter_map(|found| {
            Some(VcpuThread {
                id: found.number?,
                tid: found.tid,
                cpus: String::new(),
                policy: String::new(),
            })
        });
        Some(VmProcess {
            pid: process,
            name: vm.label.clone(),
            identity: vm.identity.clone(),
            vcpus: vcpus.collect(),
        })
    }

    /// Returns the recorder of exits, if it is enabled.
    pub(crate) fn exits(&self) -> Option<&Exits> {
        self.exits.as_ref()
    }

    /// Returns the losses of this machine's own CPUs; `None` if this machine is not a guest.
    pub(crate) fn own_cpus(&self) -> Option<&OwnCpus> {
        self.own_cpus.as_ref()
    }

    /// Returns whether vCPUs and CPUs are exported one by one.
    pub(crate) fn by_vcpu(&self) -> bool {
        self.by_vcpu
    }

    /// Returns the automatic dumps; `None` if they are not enabled.
    pub(crate) fn dumps(&self) -> Option<&Dumps> {
        self.dumps.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        let anchor = tsc::anchor();
        let mut vcpus = self.gone.clone();
        for found in self.gate.present() {
            if let Some(books) = self.gate.books(found.place) {
                vcpus.insert(found.id, Spent::of(&books, anchor.mono_ns));
            }
        }
        Snapshot {
            anchor,
            missed: self.missed,
            vcpus,
        }
    }

    /// Returns the VMs that have not ended.
    pub(crate) fn present(&self) -> impl Iterator<Item = &VmTotals> {
        self.vms.values()
    }

    /// Returns the VMs that have not ended, followed by the ended VMs that are still exported.
    pub(crate) fn vms(&self) -> impl Iterator<Item = &VmTotals> {
        self.vms.values().chain(&self.ended)
    }

    /// Returns the VMs that ended since the previous poll, with their last sums.
    pub(crate) fn left(&self) -> &[VmTotals] {
        &self.left
    }

    /// Returns the number of vCPUs that had no free slot in the gate's table at the last poll.
    pub(crate) fn without_room(&self) -> u32 {
        self.without_room
    }

    /// Returns the number of events that the programs missed.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the CPU time in ns of the programs of the gate and of this machine's own CPUs. The
    /// programs that record exits are not included.
    pub(crate) fn probe_ns(&self) -> u64 {
        let own_cpus_ns = self.own_cpus.as_ref().map_or(0, OwnCpus::probe_ns);
        self.gate.probe_ns() + own_cpus_ns
    }

    fn came(&mut self, found: &WalkedVcpu) {
        self.vmms.insert(found.place, found.tgid);
        let label = match self.vms.get(&found.tgid) {
            Some(vm) => vm.label.clone(),
            None => self.vm_came(found.tgid),
        };
        let vm = self.vms.get(&found.tgid);
        let identity = vm.map(|vm| vm.identity.clone()).unwrap_or_default();
        let member = Member {
            vm: label,
            identity,
            tid: found.tid,
            vmm_pid: found.tgid,
            number: found.number,
        };
        self.members.insert(found.id, Arc::new(member));
        self.tell_of(found);
        if self.members.len() > NAMED {
            self.members.pop_first();
        }
    }

    fn tell_of(&mut self, found: &WalkedVcpu) {
        let told: usize = self.vms.values().map(VmTotals::told_of).sum();
        if !self.by_vcpu || told >= TOLD_VCPUS {
            return;
        }
        let number = match found.number {
            Some(number) => number.to_string(),
            None => format!("thread:{}", found.tid),
        };
        if let Some(vm) = self.vms.get_mut(&found.tgid) {
            vm.tell_of(found.place, &number.into(), found.tid);
        }
    }

    fn vm_came(&mut self, pid: u32) -> Name {
        let known = self.host.who_is_vm(pid);
        let (name, identity) =
            known.unwrap_or_else(|| (format!("vm:{pid}").into(), VmIdentity::default()));
        let is_taken = |label: &Name| self.vms.values().any(|vm| vm.label == *label);
        let label = labels::choose(&name, pid, is_taken);
        // An ended VM had the same label. Its last sums are dropped, and the new sums begin at 0.
        self.ended.retain(|vm| vm.label != label);
        let totals = VmTotals::new(label.clone(), identity, self.by_vcpu);
        self.vms.insert(pid, totals);
        label
    }

    fn end(&mut self, place: GateSlot) {
        let Some(vmm) = self.vmms.remove(&place) else {
            return;
        };
        let Some(vm) = self.vms.get_mut(&vmm) else {
            return;
        };
        vm.forget(place);
        if vm.vcpus() == 0
            && let Some(vm) = self.vms.remove(&vmm)
        {
            self.left.push(vm.clone());
            self.ended.push_back(vm);
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
    }

    fn take_in(&mut self, place: GateSlot, books: &VcpuBooks, mono_ns: u64) {
        let Some(vmm) = self.vmms.get(&place) else {
            return;
        };
        let foreign = books.culprits.iter().filter(|it| !it.is_own);
        self.cgroups.look_for(foreign.map(|it| it.cgroup));
        let (members, cgroups) = (&self.members, &self.cgroups);
        if let Some(vm) = self.vms.get_mut(vmm) {
            vm.take_in(place, books, mono_ns, |culprit| {
                let vm_of = |vcpu| members.get(&vcpu).map(|member| &member.vm);
                Who::of(culprit, vm_of, |cgroup| cgroups.get(cgroup))
            });
        }
    }
}
