//! Why there may be no witnesses, and what to do about it.

/// Why the BPF programs could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// This kernel or these rights do not allow it. A run can go on without
    /// witnesses; the fields are plain sentences without a full stop.
    #[error("{why}; {remedy}")]
    Refused {
        /// What stands in the way.
        why: String,
        /// What would remove it.
        remedy: String,
    },
    /// They should load here, and do not.
    #[error("the BPF programs do not load: {0}; please report this line with the kernel version")]
    Broken(String),
}

/// A fault of tracing once the programs are loaded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no such CPU, or it was not named to [`crate::Tracer::load`].
    #[error("CPU {0} is not measured by this tracer; name it when loading")]
    NotMeasured(u32),
    /// The thread of a CPU was named too late.
    #[error("the thread of CPU {0} was named after attaching; name it before")]
    AlreadyAttached(u32),
    /// No program of any group could be attached.
    #[error("no BPF program could be attached: {0}; `vmnoise doctor` tries each group alone")]
    NothingAttached(String),
    /// The ring buffer could not be read.
    #[error("the BPF ring buffer cannot be read: {0}; what was traced since the last read is lost")]
    Ring(std::io::Error),
}
