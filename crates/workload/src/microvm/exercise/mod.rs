//! Exits on purpose: a guest makes one kind of exit again and again, and the time of each exit is
//! measured, like in `vmexit` of kvm-unit-tests.

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

/// Interval at which the caller is asked whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Time by which a guest may miss its deadline. A guest checks the deadline only after each exit.
const PATIENCE: Duration = Duration::from_secs(5);

/// The exit that the guest makes. The guest program uses the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Exercise {
    /// CPUID: always intercepted, and handled in KVM.
    Cpuid = 1,
    /// OUT to a port without a device in KVM: the VMM handles it.
    Io = 2,
    /// A read where there is no memory: KVM decodes it, and the VMM handles it.
    Mmio = 3,
    /// VMCALL or VMMCALL: handled in KVM, which refuses it because the guest is at CPL3.
    Hypercall = 4,
    /// HLT, at CPL0. Without an interrupt controller in KVM it goes to the VMM at once.
    Hlt = 5,
    /// No exit: the cost of reading the clock.
    Spin = 6,
}

/// The side that handles an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitHandler {
    /// KVM itself.
    Light,
    /// The VMM: KVM_RUN returns.
    Heavy,
    /// There is no exit.
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

    /// Returns whether KVM or the VMM handles the exits of this exercise on a stock KVM.
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
    /// The exit.
    pub exercise: Exercise,
    /// CPUs of the host. One vCPU is pinned to each.
    pub cpus: Vec<u32>,
    /// Duration of the exercise.
    pub duration: Duration,
    /// The TSC's frequency in Hz.
    pub tsc_hz: u64,
    /// Policy of the vCPU threads; `None`: as inherited.
    pub policy: Option<Policy>,
}

/// Result of one vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExerciseResult {
    /// CPU of the host to which the vCPU was pinned.
    pub cpu: u32,
    /// Number of exits, or of steps if there are no exits.
    pub count: u64,
    /// Time of each exit, in cycles; `None` if there was no exit.
    pub exit_tsc: Option<Spread>,
    /// Time from before the first exit to after the last one, in cycles.
    pub runtime_tsc: u64,
    /// Number of exits for which KVM_RUN returned: those that the VMM handled.
    pub vmm_exits: u64,
    /// Number of KVM_RUN calls in all of the vCPU's life, with its set-up.
    pub kvm_runs: u64,
    /// KVM's counts from before the first entry to after the last one. They include the exits that
    /// start and stop the exercise.
    pub kvm: KvmCounts,
}

impl ExerciseResult {
    /// Returns which side handled its exits; `None` if it made none, or if KVM does not count its
    /// own.
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

/// KVM's own statistics of a vCPU over the exercise; `None` if KVM has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KvmCounts {
    /// All exits.
    pub exits: Option<u64>,
    /// Exits for an interrupt of the host.
    pub irq_exits: Option<u64>,
    /// Exits to the VMM for an I/O port.
    pub io_exits: Option<u64>,
    /// Exits to the VMM for memory.
    pub mmio_exits: Option<u64>,
    /// Exits for HLT.
    pub halt_exits: Option<u64>,
    /// Exits for a hypercall.
    pub hypercalls: Option<u64>,
}

/// The statistics of a vCPU behind [`KvmCounts`].
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

/// A guest that is set up and waits.
#[derive(Debug)]
pub struct PreparedExercise {
    workers: Workers<GuestState>,
    /// Result of each vCPU, with its index.
    answers: mpsc::Receiver<(usize, ExerciseResult)>,
    config: ExerciseConfig,
}

/// Sets up the guest.
///
/// # Errors
/// What this machine lacks, with the remedy.
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
                // The thread that prepared this one waits for the answer.
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
    /// Runs the exercise until the time is over or `enough` returns true. Returns the result of
    /// each vCPU, in the order of [`Config::cpus`].
    ///
    /// # Errors
    /// How this machine refused the exit, with the remedy.
    pub fn run(self, enough: &dyn Fn() -> bool) -> Result<Vec<ExerciseResult>, Error> {
        let PreparedExercise {
            mut workers,
            answers,
            config,
        } = self;
        let cycles = config.duration.as_nanos() * u128::from(config.tsc_hz) / 1_000_000_000;
        let cycles = u64::try_from(cycles).unwrap_or(u64::MAX);
        let start = Instant::now();
        // If threads did not start, the reason comes when they are joined.
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
