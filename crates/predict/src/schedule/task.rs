//! Tasks that share a CPU, and the order in which they run.

use std::fmt;
use std::rc::Rc;

use response_time_analysis::arrival::ArrivalBound;
use response_time_analysis::demand::RBF;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;

/// Rule that decides which task runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleOrder {
    /// SCHED_FIFO and SCHED_RR: the task with the highest priority runs first. Among tasks of equal
    /// priority, any task may run first.
    FixedPriority,
    /// SCHED_DEADLINE: the job with the earliest deadline runs first.
    Edf,
    /// All tasks have the same priority: the job that arrived first runs first.
    Fifo,
}

/// Points at which a job can be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// The job can be preempted at any time.
    Full,
    /// The job cannot be preempted after it has begun to run.
    None,
    /// The job can be preempted at any time except in sections of at most this length, in
    /// nanoseconds. The positions of these sections are unknown.
    Sections(u64),
    /// The job can be preempted only at known points between sections.
    Points {
        /// Length of the longest section, in nanoseconds.
        longest_ns: u64,
        /// Length of the last section, in nanoseconds.
        last_ns: u64,
    },
}

/// Set of tasks that share a CPU.
#[derive(Debug)]
pub struct TaskSet {
    /// Rule that decides which task runs first.
    pub policy: ScheduleOrder,
    /// Tasks of the set; at least one.
    pub tasks: Vec<PeriodicTask>,
}

/// A task: a series of jobs that each have a deadline.
#[derive(Clone)]
pub struct PeriodicTask {
    /// Name of the task.
    pub name: String,
    /// Largest CPU time that a job needs, in nanoseconds; not 0.
    pub cost_ns: u64,
    /// Upper bound of the number of jobs that arrive in a window of a given length.
    pub arrivals: Rc<dyn ArrivalBound>,
    /// Lower bound of the average time between two jobs in the long run, in nanoseconds; not 0.
    pub period_ns: u64,
    /// Time from the arrival of a job to its deadline, in nanoseconds; not 0.
    pub deadline_ns: u64,
    /// Priority of the task. As in Linux, the task with the higher number runs first. Only
    /// [`ScheduleOrder::FixedPriority`] uses it.
    pub priority: u32,
    /// Points at which jobs of the task can be preempted.
    pub preemption: Preemption,
}

impl fmt::Debug for PeriodicTask {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "{}: {} ns by {} ns",
            self.name, self.cost_ns, self.deadline_ns
        )
    }
}

/// Function that returns the maximum CPU time that all jobs of a task need in a window of a given
/// length.
pub(super) type Demand<'a> = RBF<&'a dyn ArrivalBound, Scalar>;

impl PeriodicTask {
    /// Returns the task with jobs that may each arrive up to `ns` later. So two jobs may arrive
    /// with less time between them.
    pub fn late_by(&self, ns: u64) -> PeriodicTask {
        let arrivals = self.arrivals.clone_with_jitter(Duration::from(ns));
        PeriodicTask {
            arrivals: Rc::from(arrivals),
            ..self.clone()
        }
    }

    /// Returns the policy with which Linux runs the task in a set with this order. For
    /// [`ScheduleOrder::Fifo`] the priority is unknown. The result then has priority 2, the lowest
    /// priority above that of some recorder.
    pub fn scheduled(&self, policy: ScheduleOrder) -> vmnoise_events::Policy {
        match policy {
            ScheduleOrder::FixedPriority => {
                vmnoise_events::Policy::Fifo(i32::try_from(self.priority).unwrap_or(i32::MAX))
            }
            ScheduleOrder::Fifo => vmnoise_events::Policy::Fifo(2),
            ScheduleOrder::Edf => vmnoise_events::Policy::Deadline {
                runtime_ns: self.cost_ns,
                period_ns: self.period_ns,
            },
        }
    }

    pub(super) fn demand(&self) -> Demand<'_> {
        RBF::new(&*self.arrivals, Scalar::new(self.cost()))
    }

    pub(super) fn cost(&self) -> Service {
        Service::from(self.cost_ns)
    }

    pub(super) fn deadline(&self) -> Duration {
        Duration::from(self.deadline_ns)
    }

    /// Returns the longest time for which a job that has begun can prevent all other jobs from
    /// running.
    pub(super) fn longest_section(&self) -> Service {
        match self.preemption {
            Preemption::Full => Service::epsilon(),
            Preemption::None => self.cost(),
            Preemption::Sections(longest_ns) | Preemption::Points { longest_ns, .. } => {
                Service::from(longest_ns.clamp(1, self.cost_ns))
            }
        }
    }

    /// Returns the maximum CPU time that a job still needs when it can no longer be preempted.
    pub(super) fn tail_cost(&self) -> Service {
        match self.preemption {
            Preemption::None => self.cost() - Service::epsilon(),
            Preemption::Points { last_ns, .. } => {
                Service::from(last_ns.clamp(1, self.cost_ns)) - Service::epsilon()
            }
            Preemption::Full | Preemption::Sections(_) => Service::none(),
        }
    }

    /// Returns the fraction of the CPU's time that the task needs in the long run.
    pub fn utilisation(&self) -> f64 {
        self.cost_ns as f64 / self.period_ns as f64
    }
}
