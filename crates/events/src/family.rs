//! Times of a command's threads, and the culprits that took time from the threads.

use crate::Name;

/// Time of a command's threads by use, in nanoseconds. The uses that [`FamilyBooks::parts`] sums
/// add up to `wall_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FamilyBooks {
    /// Time from the first to the last event of each thread, summed over all threads.
    pub wall_ns: u64,
    /// Time in which the threads ran, without the interrupts, softirqs, NMIs and steal time below.
    pub ran_ns: u64,
    /// Time of interrupts while the threads ran, without steal time.
    pub irq_ns: u64,
    /// Time of softirqs while the threads ran, without interrupts and steal time.
    pub softirq_ns: u64,
    /// Time of NMIs while the threads ran, without NMIs that came during an interrupt.
    pub nmi_ns: u64,
    /// Time in which the hypervisor had the threads' CPUs while the threads ran.
    pub steal_ns: u64,
    /// Run delay: the threads were runnable, but another task ran on the CPU, or the CPU was idle.
    pub waited_ns: u64,
    /// Run delay while another thread of the same command ran on the CPU.
    pub waited_own_ns: u64,
    /// Time in which the threads were runnable but throttled, by a quota or by the limit for
    /// real-time tasks.
    pub throttled_ns: u64,
    /// Time in which the threads slept or were stopped.
    pub asleep_ns: u64,
    /// Time of unknown use, because events were missed.
    pub unseen_ns: u64,
    /// Part of `waited_ns` that may have been throttling by a quota.
    pub unsure_ns: u64,
    /// Number of threads of the command.
    pub threads: u64,
    /// Running time that the kernel counts for the threads, including interrupts.
    pub kernel_ran_ns: u64,
    /// Run delay that the kernel counts for the threads.
    pub kernel_waited_ns: u64,
    /// Run delay that the kernel counts but the events do not show. It is computed for each thread
    /// and then summed.
    pub unshown_ns: u64,
}

impl FamilyBooks {
    /// Adds each sum of `more` to the same sum of this value.
    pub fn add(&mut self, more: &FamilyBooks) {
        self.wall_ns += more.wall_ns;
        self.ran_ns += more.ran_ns;
        self.irq_ns += more.irq_ns;
        self.softirq_ns += more.softirq_ns;
        self.nmi_ns += more.nmi_ns;
        self.steal_ns += more.steal_ns;
        self.waited_ns += more.waited_ns;
        self.waited_own_ns += more.waited_own_ns;
        self.throttled_ns += more.throttled_ns;
        self.asleep_ns += more.asleep_ns;
        self.unseen_ns += more.unseen_ns;
        self.unsure_ns += more.unsure_ns;
        self.threads += more.threads;
        self.kernel_ran_ns += more.kernel_ran_ns;
        self.kernel_waited_ns += more.kernel_waited_ns;
        self.unshown_ns += more.unshown_ns;
    }

    /// Returns the time in which the threads ran, or could have run if the command had no other
    /// threads.
    pub const fn runnable_ns(&self) -> u64 {
        self.wall_ns - self.asleep_ns - self.waited_own_ns
    }

    /// Returns the time that other tasks and layers took from the threads. It excludes running,
    /// waiting for threads of the same command, sleep, and time of unknown use.
    pub const fn taken_ns(&self) -> u64 {
        self.irq_ns
            + self.softirq_ns
            + self.nmi_ns
            + self.steal_ns
            + self.waited_ns
            + self.throttled_ns
    }

    /// Returns the sum of the times of all uses, which equals `wall_ns`.
    pub const fn parts(&self) -> u64 {
        self.ran_ns
            + self.irq_ns
            + self.softirq_ns
            + self.nmi_ns
            + self.steal_ns
            + self.waited_ns
            + self.waited_own_ns
            + self.throttled_ns
            + self.asleep_ns
            + self.unseen_ns
    }
}

/// Run delay of the command's threads without a named culprit, in nanoseconds, summed over all
/// threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FamilyWaits {
    /// Run delay while the CPU was idle, before it switched to the thread.
    pub idle_ns: u64,
    /// Run delay while the hypervisor had the CPU and a task outside the command was on it.
    pub steal_ns: u64,
    /// Run delay behind tasks without a name: their time on the CPU was not seen completely, or
    /// they did not fit in the table.
    pub unnamed_ns: u64,
    /// Part of the run delay behind the command's own threads that other tasks may have caused,
    /// because a context switch was missed.
    pub doubtful_ns: u64,
}

/// Kind of culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FamilyCulpritKind {
    /// A process that ran on the CPU while threads of the command waited.
    Task,
    /// An interrupt.
    Irq,
    /// A softirq.
    Softirq,
}

/// A culprit that took time from threads of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyCulprit {
    /// Kind of the culprit.
    pub kind: FamilyCulpritKind,
    /// Name of the culprit. For a task, it is the name and the id of its process. For an interrupt
    /// or a softirq, it is the name that all results use.
    pub name: Name,
    /// Time taken, in nanoseconds, summed over all threads that waited or were interrupted.
    pub ns: u64,
    /// Number of times that the task ran, or number of interrupts.
    pub count: u64,
    /// Longest time that the task ran at once or that one interrupt took, in nanoseconds.
    pub longest_ns: u64,
}

/// Kind of a continuous loss of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyTaken {
    /// A wait of one thread for its CPU. The time in which other threads of the command ran is not
    /// included.
    Wait,
    /// An interrupt.
    Irq,
    /// A softirq.
    Softirq,
    /// An NMI.
    Nmi,
    /// An advance of the steal clock between two events.
    Steal,
}

/// The longest single loss of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyLongest {
    /// Kind of the loss.
    pub taken: FamilyTaken,
    /// Length of the loss, in nanoseconds.
    pub ns: u64,
    /// End of the loss, CLOCK_MONOTONIC in nanoseconds.
    pub until_mono_ns: u64,
    /// Name of the culprit, if known. For a wait, the task that ran on the CPU at the end of the
    /// wait.
    pub who: Option<Name>,
}

/// A thread of the command that was alive when the facts were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyMember {
    /// Thread id in the initial pid namespace.
    pub tid: u32,
    /// Time of the thread by use. The time since the thread's last event counts as `unseen_ns`,
    /// unless the thread sleeps.
    pub books: FamilyBooks,
}

/// Facts about a command's threads, as read at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FamilyLook {
    /// Time of threads that have ended.
    pub ended: FamilyBooks,
    /// Threads that are still alive.
    pub alive: Vec<FamilyMember>,
    /// Run delay in `waited_ns` that has no named culprit.
    pub waits: FamilyWaits,
    /// Culprits, ordered by the time that they took, largest first.
    pub culprits: Vec<FamilyCulprit>,
    /// Longest single loss of each kind that occurred.
    pub longest: Vec<FamilyLongest>,
    /// Number of events that do not fit the events before them, so that events must have been
    /// missed.
    pub unpaired: u64,
    /// Number of events that a BPF program missed because a BPF program was already running on that
    /// CPU.
    pub missed: u64,
    /// Part of `unpaired` and `missed` for which the error in the times has no upper bound. These
    /// are interrupts, and updates without the lock because another CPU held it for too long.
    pub unbounded: u64,
    /// Number of threads that were not followed, because memory was short or their fork was missed.
    pub unfollowed: u64,
    /// Cost of the BPF programs on all CPUs, in nanoseconds.
    pub probe_ns: u64,
    /// Largest time that was taken from one thread, among the threads that have ended, in
    /// nanoseconds.
    pub most_of_ended_ns: u64,
    /// Longest continuous loss of one thread, in nanoseconds. Waits, interrupts and softirqs belong
    /// to the same loss if the thread ran for less than 5 us between them.
    pub contiguous_ns: u64,
}

impl FamilyLook {
    /// Returns the largest time that was taken from a single thread, in nanoseconds.
    pub fn most_of_one_ns(&self) -> u64 {
        let alive = self.alive.iter().map(|it| it.books.taken_ns());
        alive.fold(self.most_of_ended_ns, u64::max)
    }

    /// Returns the time of all threads by use, living and ended.
    pub fn books(&self) -> FamilyBooks {
        let mut all = self.ended;
        for member in &self.alive {
            all.add(&member.books);
        }
        all
    }
}
