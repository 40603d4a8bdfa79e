//! Activity of a command's threads, and who took time from them.

use crate::Name;

/// Time of threads by use, in ns of CLOCK_MONOTONIC. The parts of [`FamilyBooks::parts`] add up to
/// `wall_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FamilyBooks {
    /// Time from the first to the last event of each thread, summed over all threads.
    pub wall_ns: u64,
    /// Time running, net of the interrupts, NMIs and steal below.
    pub ran_ns: u64,
    /// Time in interrupts while they ran, net of steal.
    pub irq_ns: u64,
    /// Time in softirqs while they ran, net of interrupts and steal.
    pub softirq_ns: u64,
    /// Time in NMIs while they ran, outside of interrupts.
    pub nmi_ns: u64,
    /// Time that the hypervisor had their CPU while they ran.
    pub steal_ns: u64,
    /// Run delay: the threads were runnable, but another task had the CPU, or the CPU idled.
    pub waited_ns: u64,
    /// Run delay while another thread of the same command had the CPU.
    pub waited_own_ns: u64,
    /// Time runnable but throttled by a quota or the limit of real-time tasks.
    pub throttled_ns: u64,
    /// Time asleep by their own choice, or stopped.
    pub asleep_ns: u64,
    /// Unknown time, because events were missed.
    pub unseen_ns: u64,
    /// Part of `waited_ns` that a quota may have caused.
    pub unsure_ns: u64,
    /// Number of threads of the command.
    pub threads: u64,
    /// Running time according to the kernel, interrupts included.
    pub kernel_ran_ns: u64,
    /// Run delay according to the kernel.
    pub kernel_waited_ns: u64,
    /// Run delay that the kernel counts but events do not show, computed per thread and summed.
    pub unshown_ns: u64,
}

impl FamilyBooks {
    /// Adds the sums in `more`.
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

    /// Returns the time in which the threads ran, or could have run if no other thread of the
    /// command had had the CPU.
    pub const fn runnable_ns(&self) -> u64 {
        self.wall_ns - self.asleep_ns - self.waited_own_ns
    }

    /// Returns the time that other tasks and layers took from the threads: all time except running,
    /// waiting for threads of the same command, sleep and unknown time.
    pub const fn taken_ns(&self) -> u64 {
        self.irq_ns
            + self.softirq_ns
            + self.nmi_ns
            + self.steal_ns
            + self.waited_ns
            + self.throttled_ns
    }

    /// Returns the sum of all parts, which equals `wall_ns`.
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

/// Time that the command's threads waited without a named culprit, in ns over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FamilyWaits {
    /// The CPU was idle, on the way to the thread.
    pub idle_ns: u64,
    /// The hypervisor had the CPU during another task's turn.
    pub steal_ns: u64,
    /// A task whose turn was not seen completely, or did not fit in the table, had the CPU.
    pub unnamed_ns: u64,
    /// Time counted as the command's own that may belong to others, because the end of the turn was
    /// missed.
    pub doubtful_ns: u64,
}

/// Kind of a culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FamilyCulpritKind {
    /// A process that had the CPU while threads waited.
    Task,
    /// An interrupt.
    Irq,
    /// A softirq.
    Softirq,
}

/// A culprit that took time from the command's threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyCulprit {
    /// Kind of the culprit.
    pub kind: FamilyCulpritKind,
    /// Name of the culprit. For a task it is the name and the id of its process; otherwise it is
    /// the name in other results.
    pub name: Name,
    /// Time taken, over all threads that waited.
    pub ns: u64,
    /// Number of turns or interrupts.
    pub count: u64,
    /// Longest turn or interrupt.
    pub longest_ns: u64,
}

/// Kind of one continuous loss of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyTaken {
    /// A wait of one thread, without the turns of other threads of the command.
    Wait,
    /// An interrupt.
    Irq,
    /// A softirq.
    Softirq,
    /// An NMI.
    Nmi,
    /// An advance of the steal clock since the last reading of the clock.
    Steal,
}

/// The longest loss of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyLongest {
    /// Kind of the loss.
    pub taken: FamilyTaken,
    /// Length of the loss, in nanoseconds.
    pub ns: u64,
    /// End, in ns of CLOCK_MONOTONIC.
    pub until_mono_ns: u64,
    /// Culprit; for a wait, the task that had the CPU at the end of the wait.
    pub who: Option<Name>,
}

/// A thread that was alive at the time of the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyMember {
    /// Thread id in the initial pid namespace.
    pub tid: u32,
    /// Time of the thread by use. The time since the thread's last event counts as unseen, except
    /// if the thread sleeps.
    pub books: FamilyBooks,
}

/// One reading of the facts about a command's threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FamilyLook {
    /// Time of threads that have ended.
    pub ended: FamilyBooks,
    /// Threads that are still alive.
    pub alive: Vec<FamilyMember>,
    /// Part of `waited_ns` without a named culprit.
    pub waits: FamilyWaits,
    /// Culprits, longest first.
    pub culprits: Vec<FamilyCulprit>,
    /// Longest loss of each kind that occurred.
    pub longest: Vec<FamilyLongest>,
    /// Events that contradict earlier events, so that others are missing.
    pub unpaired: u64,
    /// Number of events that the BPF programs missed because a program was already running.
    pub missed: u64,
    /// Missing events of both kinds with unknown effect: interrupts, and cases in which two CPUs
    /// updated the same thread at once.
    pub unbounded: u64,
    /// Threads that were not followed: memory was short, or their fork was missed.
    pub unfollowed: u64,
    /// Cost of the programs on all CPUs, in ns.
    pub probe_ns: u64,
    /// Largest time that was taken from one of the threads that have ended, in ns.
    pub most_of_ended_ns: u64,
    /// Longest loss of a thread, in ns: consecutive waits, interrupts and soft interrupts between
    /// which the thread ran for less than 5 us.
    pub contiguous_ns: u64,
}

impl FamilyLook {
    /// Returns the largest time that was taken from one thread, in ns.
    pub fn most_of_one_ns(&self) -> u64 {
        let alive = self.alive.iter().map(|it| it.books.taken_ns());
        alive.fold(self.most_of_ended_ns, u64::max)
    }

    /// Returns the time of all threads together.
    pub fn books(&self) -> FamilyBooks {
        let mut all = self.ended;
        for member in &self.alive {
            all.add(&member.books);
        }
        all
    }
}
