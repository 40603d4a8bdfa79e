//! Exercises: a guest repeatedly makes one kind of exit on purpose, and the time of each exit is
//! measured, as in `vmexit` of kvm-unit-tests.

pub(super) mod program;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde::Serialize;
use vmnoise_events::Policy;

use super::guest::GuestCommand;
use super::histogram;
use super::state::GuestState;
use super::stats::{EXITS, VcpuStat};
use super::vcpu::{GuestVcpu, Privilege, Return};
use super::vm::MicrovmMemory;
use crate::worker::RunState;
use crate::workers::Workers;
use crate::{Error, RunningWorkload, tsc};

pub use super::histogram::Spread;

/// Interval at which [`PreparedExercise::run`] asks its caller whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum delay of a guest after its deadline. A guest checks the deadline only after each exit.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kind of exit that the guest makes. The guest program uses the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Exercise {
    /// CPUID. The CPU always intercepts it, and KVM handles it.
    Cpuid = 1,
    /// OUT to a port that has no device in KVM. The VMM handles it.
    Io = 2,
    /// A read of an address without memory. KVM decodes the instruction, and the VMM handles the
    /// read.
    Mmio = 3,
    /// VMCALL or VMMCALL. KVM handles it, and refuses the call because the guest runs at CPL3.
    Hypercall = 4,
    /// HLT at CPL0. Without an interrupt controller in KVM, the VMM handles it at once.
    Hlt = 5,
    /// No exit. The exercise measures the cost of reading the clock.
    Spin = 6,
}

/// Side of the host that handles an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitHandler {
    /// KVM handles the exit itself.
    Light,
    /// The VMM handles the exit, after KVM_RUN has returned.
    Heavy,
    /// The exercise makes no exits.
    None,
}

impl Exercise {
    /// All exercises.
    pub const ALL: [Exercise; 6] = [
        Exercise::Cpuid,
        Exercise::Io,
        Exercise::Mmio,
        Exercise::Hypercall,
        Exercise::Hlt,
        Exercise::Spin,
    ];

    /// Returns the name of the exercise on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Exercise::Cpuid => "cpuid",
            Exercise::Io => "io",
            Exercise::Mmio => "mmio",
            Exercise::Hypercall => "hypercall",
            Exercise::Hlt => "hlt",
            Exercise::Spin => "spin",
        }
    }

    /// Returns which side handles the exits of this exercise under an unmodified KVM.
    pub fn kind(self) -> ExitHandler {
        match self {
            Exercise::Cpuid | Exercise::Hypercall => ExitHandler::Light,
            Exercise::Io | Exercise::Mmio | Exercise::Hlt => ExitHandler::Heavy,
            Exercise::Spin => ExitHandler::None,
        }
    }

    fn privilege(self) -> Privilege {
        match self {
            Exercise::Hlt => Privilege::Cpl0,
            _ => Privilege::Cpl3,
        }
    }
}

/// Settings of an exercise.
#[derive(Debug, Clone)]
pub struct ExerciseConfig {
    /// Kind of exit that the guest makes.
    pub exercise: Exercise,
    /// Host CPUs. One vCPU is pinned to each of them.
    pub cpus: Vec<u32>,
    /// Duration of the exercise.
    pub duration: Duration,
    /// Frequency of the TSC, in Hz.
    pub tsc_hz: u64,
    /// Policy of the vCPU threads; `None` to inherit the policy of this process.
    pub policy: Option<Policy>,
}

/// Result of an exercise on one vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExerciseResult {
    /// Host CPU to which the vCPU was pinned.
    pub cpu: u32,
    /// Number of exits. For [`Exercise::Spin`], the number of readings of the clock.
    pub count: u64,
    /// Summary of the times of all exits, in TSC cycles; `None` if there was no exit.
    pub exit_tsc: Option<Spread>,
    /// Time from the reading before the first exit to the reading after the last exit, in TSC
    /// cycles.
    pub runtime_tsc: u64,
    /// Number of exits that the VMM handled, for which KVM_RUN returned.
    pub vmm_exits: u64,
    /// Number of KVM_RUN calls in the whole life of the vCPU, including its set-up.
    pub kvm_runs: u64,
    /// KVM's own counts, from before the first entry to after the last exit. They include the exits
    /// that start and stop the exercise.
    pub kvm: KvmCounts,
}

impl ExerciseResult {
    /// Returns which side handled the exits. Returns `None` if there was no exit, or if KVM's own
    /// counts are missing.
    pub fn kind(&self) -> Option<ExitHandler> {
        if self.count == 0 {
            return None;
        }
        if self.vmm_exits >= self.count {
            return Some(ExitHandler::Heavy);
        }
        let in_kvm = self.kvm.exits? >= self.count;
        Some(if in_kvm {
            ExitHandler::Light
        } else {
            ExitHandler::None
        })
    }
}

/// KVM's own counts of a vCPU's exits during the exercise. A count is `None` if KVM does not have
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KvmCounts {
    /// Number of all exits.
    pub exits: Option<u64>,
    /// Number of exits because of an interrupt of the host.
    pub irq_exits: Option<u64>,
    /// Number of exits to the VMM because of an I/O port.
    pub io_exits: Option<u64>,
    /// Number of exits to the VMM because of an access without memory.
    pub mmio_exits: Option<u64>,
    /// Number of exits because of HLT.
    pub halt_exits: Option<u64>,
    /// Number of exits because of a hypercall.
    pub hypercalls: Option<u64>,
}

/// KVM's counters of a vCPU, in the order of the fields of [`KvmCounts`].
struct KvmStats([Option<VcpuStat>; 6]);

impl KvmStats {
    fn open(vcpu: &GuestVcpu) -> KvmStats {
        let names = [
            EXITS,
            "irq_exits",
            "io_exits",
            "mmio_exits",
            "halt_exits",
            "hypercalls",
        ];
        KvmStats(names.map(|name| vcpu.stat(name)))
    }

    fn read(&self) -> KvmCounts {
        let counts = self.0.each_ref().map(|stat| stat.as_ref()?.read());
        let [
            exits,
            irq_exits,
            io_exits,
            mmio_exits,
            halt_exits,
            hypercalls,
        ] = counts;
        KvmCounts {
            exits,
            irq_exits,
            io_exits,
            mmio_exits,
            halt_exits,
            hypercalls,
        }
    }
}

/// A guest that is set up and waits for the start.
#[derive(Debug)]
pub struct PreparedExercise {
    workers: Workers<GuestState>,
    /// Receives the index and the result of each vCPU.
    answers: mpsc::Receiver<(usize, ExerciseResult)>,
    config: ExerciseConfig,
}

/// Sets up the guest of an exercise.
///
/// # Errors
/// If this machine cannot run the exercise. The error contains the remedy.
pub fn prepare(config: &ExerciseConfig) -> Result<PreparedExercise, Error> {
    let vm = Arc::new(MicrovmMemory::create(&config.cpus, None)?);
    let (done, answers) = mpsc::channel();
    let (cpus, policy, exercise) = (&config.cpus, config.policy, config.exercise);
    let workers = Workers::set_up("vcpu", cpus, policy, None, |index, cpu| {
        let (vm, done) = (Arc::clone(&vm), done.clone());
        move || {
            let mut vcpu = GuestVcpu::create(&vm, index, cpu)?;
            vcpu.set_privilege(exercise.privilege())?;
            let state = GuestState::new(Arc::clone(&vm), &vcpu, None);
            let work = move |run: &RunState| {
                // The thread that called [`prepare`] receives the result.
                let _ = done.send((index, carry_out(exercise, &vm, &mut vcpu, run)?));
                Ok(())
            };
            Ok((Arc::new(state), work))
        }
    })?;
    Ok(PreparedExercise {
        workers,
        answers,
        config: config.clone(),
    })
}

impl PreparedExercise {
    /// Runs the exercise until its duration is over or `enough` returns true. Returns the result of
    /// each vCPU, in the order of [`ExerciseConfig::cpus`].
    ///
    /// # Errors
    /// If this machine does not handle the exit as expected. The error contains the remedy.
    pub fn run(self, enough: &dyn Fn() -> bool) -> Result<Vec<ExerciseResult>, Error> {
        let PreparedExercise {
            mut workers,
            answers,
            config,
        } = self;
        let cycles = config.duration.as_nanos() * u128::from(config.tsc_hz) / 1_000_000_000;
        let cycles = u64::try_from(cycles).unwrap_or(u64::MAX);
        let start = Instant::now();
        // If some threads could not start, `join` returns the reason.
        let started = workers.start(Some(tsc::now().saturating_add(cycles)));
        while started.is_ok() && workers.running() {
            std::thread::sleep(LOOK);
            if enough() {
                workers.stop();
            }
            if start.elapsed() > config.duration + PATIENCE {
                workers.call_away();
            }
        }
        workers.join()?;
        let answers: HashMap<usize, ExerciseResult> = answers.try_iter().collect();
        let answer = |(index, &cpu)| answers.get(&index).copied().ok_or(stuck(cpu));
        config.cpus.iter().enumerate().map(answer).collect()
    }
}

fn carry_out(
    exercise: Exercise,
    vm: &MicrovmMemory,
    vcpu: &mut GuestVcpu,
    run: &RunState,
) -> Result<ExerciseResult, Error> {
    let memory = &vm.memory;
    let (index, cpu) = (vcpu.index, vcpu.cpu);
    let control = &memory.mailbox(index).control;
    let (exercise, unbacked) = (program::order(exercise), memory.unbacked());
    control.exercise.store(exercise, Ordering::Relaxed);
    control.unbacked.store(unbacked, Ordering::Relaxed);
    let stats = KvmStats::open(vcpu);
    let before = vcpu.vmm_exits;
    if vcpu.obey(GuestCommand::Exercise, &|| run.barrier.is_closed())? == Return::Abandoned {
        return Err(stuck(cpu));
    }
    let kvm = stats.read();
    let (count, exit_tsc, runtime_tsc) = histogram::read(&memory.samples(index));
    Ok(ExerciseResult {
        cpu,
        count,
        exit_tsc,
        runtime_tsc,
        vmm_exits: vcpu.vmm_exits - before,
        kvm_runs: vcpu.kvm_runs,
        kvm,
    })
}

fn stuck(cpu: u32) -> Error {
    super::Error::Stuck { cpu }.into()
}
