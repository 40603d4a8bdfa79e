//! What a command's threads did, and who took time from them.

use crate::Name;

/// How threads spent their time, in ns of CLOCK_MONOTONIC. The parts add up to `wall_ns`:
/// [`FamilyBooks::parts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FamilyBooks {
    /// From the first event of each thread to its last one, all threads together.
    pub wall_ns: u64,
    /// They ran, net of all else.
    pub ran_ns: u64,
    /// Interrupts inside of their running, net of steal.
    pub irq_ns: u64,
    /// Soft interrupts inside of their running, net of interrupts and steal.
    pub softirq_ns: u64,
    /// NMIs inside of their running, outside of interrupts.
    pub nmi_ns: u64,
    /// The hypervisor had their CPU while they ran.
    pub steal_ns: u64,
    /// They could run, and somebody else had the CPU, or nobody.
    pub waited_ns: u64,
    /// They could run, and another thread of the same command had the CPU.
    pub waited_own_ns: u64,
    /// A quota, or the limit of real-time tasks, kept them from running.
    pub throttled_ns: u64,
    /// They slept of their own accord, or were stopped.
    pub asleep_ns: u64,
    /// Events were missed, so nobody knows.
    pub unseen_ns: u64,
    /// Of `waited_ns`: a quota may have been what they waited for.
    pub unsure_ns: u64,
    /// How many threads.
    pub threads: u64,
    /// What the kernel says that they ran, interrupts included.
    pub kernel_ran_ns: u64,
    /// What the kernel says that they waited for a CPU.
    pub kernel_waited_ns: u64,
    /// How much longer that is than what events say, of each thread by itself.
    pub unshown_ns: u64,
}

impl FamilyBooks {
    /// These too.
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

    /// How long they ran, or could have but for one another.
    pub const fn runnable_ns(&self) -> u64 {
        self.wall_ns - self.asleep_ns - self.waited_own_ns
    }

    /// What others took: all but their own running, their waiting for one another, their sleep, and what nobody
    /// knows.
    pub const fn taken_ns(&self) -> u64 {
        self.irq_ns
            + self.softirq_ns
            + self.nmi_ns
            + self.steal_ns
            + self.waited_ns
            + self.throttled_ns
    }

    /// The sum of all parts, which is `wall_ns`.
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

/// Who had a CPU while threads of the command waited, in ns over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FamilyWaits {
    /// Nobody: the CPU idled, on the way to the thread.
    pub idle_ns: u64,
    /// The hypervisor, in another task's turn.
    pub steal_ns: u64,
    /// Somebody whose turn was not seen whole, or for whom there was no place.
    pub unnamed_ns: u64,
    /// Counted as the command's own, and may have been others': the end of that turn was not seen.
    pub doubtful_ns: u64,
}

/// How somebody took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FamilyCulpritKind {
    /// A process had the CPU for which threads waited.
    Task,
    /// An interrupt.
    Irq,
    /// A soft interrupt.
    Softirq,
}

/// Who took time from the command's threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyCulprit {
    /// How.
    pub kind: FamilyCulpritKind,
    /// Of a task its process, with its number; else as in other results.
    pub name: Name,
    /// All together, over all threads that waited.
    pub ns: u64,
    /// Turns, or interrupts.
    pub count: u64,
    /// The longest of these.
    pub longest_ns: u64,
}

/// What was taken at one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyTaken {
    /// A wait of one thread, without the turns of its own family.
    Wait,
    /// An interrupt.
    Irq,
    /// A soft interrupt.
    Softirq,
    /// An NMI.
    Nmi,
    /// What the steal clock was ahead of its last reading.
    Steal,
}

/// The longest of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyLongest {
    /// What it was.
    pub taken: FamilyTaken,
    /// How long.
    pub ns: u64,
    /// When it was over, in ns of CLOCK_MONOTONIC.
    pub until_mono_ns: u64,
    /// Who; of a wait, who had the CPU at its end.
    pub who: Option<Name>,
}

/// A thread that was alive when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyMember {
    /// Its number in the initial pid namespace.
    pub tid: u32,
    /// Its books; since its last event it is unseen, if it does not sleep.
    pub books: FamilyBooks,
}

/// All that is known of a command's threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FamilyLook {
    /// Of threads that have ended.
    pub ended: FamilyBooks,
    /// Of the others.
    pub alive: Vec<FamilyMember>,
    /// Of `waited_ns`, what no task had.
    pub waits: FamilyWaits,
    /// Longest first.
    pub culprits: Vec<FamilyCulprit>,
    /// One of each kind that there was.
    pub longest: Vec<FamilyLongest>,
    /// Events that do not fit what was seen before: others are missing.
    pub unpaired: u64,
    /// Events that the programs missed, as they ran already.
    pub missed: u64,
    /// Of both, those that do not say how much is missing: of interrupts, and where two CPUs wrote the same books at
    /// once.
    pub unbounded: u64,
    /// Threads that could not be followed: there was no memory, or their fork was missed.
    pub unfollowed: u64,
    /// What the programs have cost, on all CPUs.
    pub probe_ns: u64,
    /// Largest time that was taken from one of the threads that have ended, in ns.
    pub most_of_ended_ns: u64,
    /// Longest time for which a thread was kept from running and did not run for 5 us in between, in ns: waits,
    /// interrupts and soft interrupts that follow one another.
    pub contiguous_ns: u64,
}

impl FamilyLook {
    /// Returns the largest time that was taken from one thread, in ns.
    pub fn most_of_one_ns(&self) -> u64 {
        let alive = self.alive.iter().map(|it| it.books.taken_ns());
        alive.fold(self.most_of_ended_ns, u64::max)
    }

    /// Of all threads together.
    pub fn books(&self) -> FamilyBooks {
        let mut all = self.ended;
        for member in &self.alive {
            all.add(&member.books);
        }
        all
    }
}
