//! Scheduling settings of a thread, from its file `stat` in /proc.

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};
use std::io;

use super::Host;

/// Names of the policies as chrt(1) prints them, by their numbers (include/uapi/linux/sched.h).
const POLICIES: [(u32, &str); 6] = [
    (0, "SCHED_OTHER"),
    (FIFO, "SCHED_FIFO"),
    (RR, "SCHED_RR"),
    (3, "SCHED_BATCH"),
    (IDLE, "SCHED_IDLE"),
    (DEADLINE, "SCHED_DEADLINE"),
];

const FIFO: u32 = 1;
const RR: u32 = 2;
const IDLE: u32 = 5;
const DEADLINE: u32 = 6;
// Flags of a thread, from include/linux/sched.h.
const PF_KTHREAD: u32 = 0x0020_0000;
const PF_NO_SETAFFINITY: u32 = 0x0400_0000;

/// Scheduling settings of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    /// Number of the policy in include/uapi/linux/sched.h.
    pub policy: u32,
    /// Priority: 1 to 99 for a thread with SCHED_FIFO or SCHED_RR, otherwise 0.
    pub priority: u32,
    /// Nice value, -20 to 19. A thread with a lower value gets more CPU time.
    pub nice: i32,
    /// Start time of the thread, in clock ticks since boot. It distinguishes this thread from later
    /// threads with the same id.
    pub started_ticks: u64,
    flags: u32,
}

impl Scheduling {
    /// Settings of an ordinary thread: SCHED_OTHER with nice value 0.
    pub const ORDINARY: Scheduling = Scheduling {
        policy: 0,
        priority: 0,
        nice: 0,
        started_ticks: 0,
        flags: 0,
    };

    /// Parses the text of `/proc/PID/task/TID/stat` (proc(5)); `None` if a field is missing.
    pub(super) fn of(stat: &str) -> Option<Scheduling> {
        // The thread's name may contain any character, but no later field contains a parenthesis.
        let (_, after_name) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        // The first element of `fields` is field 3 of proc(5).
        let field = |number: usize| fields.get(number - 3)?.parse::<i64>().ok();
        Some(Scheduling {
            policy: u32::try_from(field(41)?).ok()?,
            priority: u32::try_from(field(40)?).ok()?,
            nice: i32::try_from(field(19)?).ok()?,
            started_ticks: u64::try_from(field(22)?).ok()?,
            flags: u32::try_from(field(9)?).ok()?,
        })
    }

    /// Returns whether the thread runs before all ordinary threads.
    pub const fn is_real_time(&self) -> bool {
        matches!(self.policy, FIFO | RR | DEADLINE)
    }

    /// Returns whether the thread runs only if no other thread wants the CPU (SCHED_IDLE).
    pub const fn is_idle(&self) -> bool {
        self.policy == IDLE
    }

    /// Returns whether the thread is a kernel thread.
    pub const fn is_kernels(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// Returns whether the kernel refuses to change the affinity of the thread.
    pub const fn is_bound(&self) -> bool {
        self.flags & PF_NO_SETAFFINITY != 0
    }

    /// Returns a rank for comparing two threads. If two threads share a CPU, the thread with the
    /// greater rank runs first or gets more CPU time. Weights of cgroups do not count.
    pub const fn rank(&self) -> (u8, u32, Reverse<i32>) {
        let class = match self.policy {
            DEADLINE => 3,
            FIFO | RR => 2,
            IDLE => 0,
            _ => 1,
        };
        match class {
            1 => (class, 0, Reverse(self.nice)),
            _ => (class, self.priority, Reverse(0)),
        }
    }

    /// Returns the options with which chrt(1) sets this scheduling; `None` if chrt(1) cannot set
    /// it.
    pub fn chrt(&self) -> Option<String> {
        let letter = match self.policy {
            0 => 'o',
            FIFO => 'f',
            RR => 'r',
            3 => 'b',
            IDLE => 'i',
            _ => return None,
        };
        Some(format!("-{letter} -p {}", self.priority))
    }
}

/// Formats the scheduling like chrt(1): `SCHED_FIFO 50`, `SCHED_OTHER nice -5`.
impl Display for Scheduling {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let named = POLICIES.iter().find(|(number, _)| *number == self.policy);
        match named {
            Some((_, name)) => out.write_str(name)?,
            None => write!(out, "policy {}", self.policy)?,
        }
        match (self.priority, self.nice) {
            (0, 0) => Ok(()),
            (0, nice) => write!(out, " nice {nice}"),
            (priority, _) => write!(out, " {priority}"),
        }
    }
}

impl Host {
    /// Returns the scheduling settings of this thread.
    ///
    /// # Errors
    /// If there is no such thread, or its file has another format.
    pub fn scheduling(&self, pid: u32, tid: u32) -> io::Result<Scheduling> {
        let file = format!("proc/{pid}/task/{tid}/stat");
        let told = Scheduling::of(&self.text(&file)?);
        told.ok_or_else(|| io::Error::other(format!("/{file}: fields are missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nice: i32, priority: u32, policy: u32) -> Scheduling {
        let mut fields = vec!["0".to_owned(); 52];
        fields[0] = "71".into();
        fields[1] = "(CPU 0/KVM (x) )".into();
        fields[2] = "S".into();
        fields[8] = (PF_KTHREAD | PF_NO_SETAFFINITY).to_string();
        fields[18] = nice.to_string();
        fields[21] = "4711".into();
        fields[39] = priority.to_string();
        fields[40] = policy.to_string();
        Scheduling::of(&fields.join(" ")).unwrap()
    }

    #[test]
    fn policies_are_named_as_chrt_does() {
        assert_eq!(of(0, 0, 0).to_string(), "SCHED_OTHER");
        assert_eq!(of(-5, 0, 0).to_string(), "SCHED_OTHER nice -5");
        assert_eq!(of(0, 50, 1).to_string(), "SCHED_FIFO 50");
        assert_eq!(of(0, 0, 99).to_string(), "policy 99");
        assert_eq!(of(0, 50, 1).chrt().unwrap(), "-f -p 50");
        assert_eq!(of(5, 0, 0).chrt().unwrap(), "-o -p 0");
        assert_eq!(of(0, 0, DEADLINE).chrt(), None);
        assert_eq!(Scheduling::of(""), None);
        let kernels = of(0, 0, 0);
        assert!(kernels.is_kernels() && kernels.is_bound());
        assert_eq!(kernels.started_ticks, 4711);
    }

    #[test]
    fn who_is_served_first_is_greater() {
        let ascending = [
            of(-20, 0, IDLE),
            of(19, 0, 0),
            of(0, 0, 0),
            of(-20, 0, 0),
            of(0, 1, FIFO),
            of(0, 2, RR),
            of(0, 99, FIFO),
            of(0, 0, DEADLINE),
        ];
        assert!(
            ascending
                .iter()
                .is_sorted_by(|one, next| one.rank() < next.rank())
        );
        // Batch threads have the same rank as ordinary threads.
        assert_eq!(of(0, 0, 3).rank(), of(0, 0, 0).rank());
    }

    #[test]
    fn this_thread_has_a_policy() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let own = Scheduling::of(&stat).unwrap();
        assert!(own.to_string().starts_with("SCHED_"), "{stat}");
        assert!(!own.is_kernels());
    }
}
