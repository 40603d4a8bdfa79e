//! Evidence of the instant at which a limit stopped a run.

/// One frame of a stack. The innermost frame comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackFrame {
    /// Address to which the frame returns.
    pub address: u64,
    /// The function at this address, if the kernel names it.
    pub function: Option<String>,
}

/// A task that had a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupant {
    /// The kernel's name of the task (comm).
    pub comm: String,
    /// Thread id of the task; 0 is the idle task.
    pub tid: u32,
}
