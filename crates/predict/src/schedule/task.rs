//! Tasks of a CPU.

use std::fmt;
use std::rc::Rc;

use response_time_analysis::arrival::ArrivalBound;
use response_time_analysis::demand::RBF;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;

/// Scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleOrder {
    /// SCHED_FIFO and SCHED_RR: the task with the higher priority goes first; of equal priorities
    /// any task.
    FixedPriority,
    /// SCHED_DEADLINE: the job with the earlier deadline goes first.
    Edf,
    /// All tasks have one priority: the job that came first goes first.
    Fifo,
}

/// Places at which a job can be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// Anywhere.
    Full,
    /// Nowhere, once the job runs.
    None,
    /// Anywhere except in sections of at most this length, in nanoseconds. They may be anywhere.
    Sections(u64),
    /// At known points between sections. Lengths are in nanoseconds.
    Points {
        /// Length of the longest section.
        longest_ns: u64,
        /// Length of the last section.
        last_ns: u64,
    },
}

/// Tasks that share a CPU.
#[derive(Debug)]
pub struct TaskSet {
    /// Policy that decides which task goes first.
    pub policy: ScheduleOrder,
    /// Tasks; at least one.
    pub tasks: Vec<PeriodicTask>,
}

/// Task: a series of jobs, each of which must be done by its deadline.
#[derive(Clone)]
pub struct PeriodicTask {
    /// Name.
    pub name: String,
    /// Longest CPU time of a job, in nanoseconds; not 0.
    pub cost_ns: u64,
    /// Bound of the number of jobs that arrive in a window.
    pub arrivals: Rc<dyn ArrivalBound>,
    /// Least average distance between jobs in the long run, in nanoseconds; not 0.
    pub period_ns: u64,
    /// Time after its arrival by which a job must be done, in nanoseconds; not 0.
    pub deadline_ns: u64,
    /// Priority, of which the higher one goes first, as in Linux. It is only used for fixed
    /// priorities.
    pub priority: u32,
    /// Places at which its jobs can be preempted.
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

/// CPU time that all jobs of a task need in a window.
pub(super) type Demand<'a> = RBF<&'a dyn ArrivalBound, Scalar>;

impl PeriodicTask {
    /// Returns the task with jobs that may each arrive this much later. So jobs may come closer
    /// together.
    pub fn late_by(&self, ns: u64) -> PeriodicTask {
        let arrivals = self.arrivals.clone_with_jitter(Duration::from(ns));
        PeriodicTask {
            arrivals: Rc::from(arrivals),
            ..self.clone()
        }
    }

    /// Returns the policy with which Linux schedules the task in a set of this policy. If its
    /// priority is unknown, this is the lowest one below which a recorder can be.
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

    /// Returns the longest time for which a job that has begun can keep all others from running.
    pub(super) fn longest_section(&self) -> Service {
        match self.preemption {
            Preemption::Full => Service::epsilon(),
            Preemption::None => self.cost(),
            Preemption::Sections(longest_ns) | Preemption::Points { longest_ns, .. } => {
                Service::from(longest_ns.clamp(1, self.cost_ns))
            }
        }
    }

    /// Returns the most CPU time that a job still needs once it can no longer be preempted.
    pub(super) fn tail_cost(&self) -> Service {
        match self.preemption {
            Preemption::None => self.cost() - Service::epsilon(),
            Preemption::Points { last_ns, .. } => {
                Service::from(last_ns.clamp(1, self.cost_ns)) - Service::epsilon()
            }
            Preemption::Full | Preemption::Sections(_) => Service::none(),
        }
    }

    /// Returns the part of the CPU's time that the task needs in the long run.
    pub fn utilisation(&self) -> f64 {
        self.cost_ns as f64 / self.period_ns as f64
    }
}
