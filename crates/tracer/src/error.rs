//! Errors of loading and running the BPF programs, with their remedies.

/// Reason why the BPF programs could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// This kernel does not allow BPF, or this process has no right to use it. A run can continue
    /// without BPF. The fields are sentences without a full stop.
    #[error("{why}; {remedy}")]
    Refused {
        /// The obstacle.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// This machine allows BPF, but the programs do not load.
    #[error("the BPF programs do not load: {0}; please report this line with the kernel version")]
    Broken(String),
}

/// Error that occurs after the programs were loaded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// This CPU does not exist, or was not passed to [`crate::Tracer::load`].
    #[error("CPU {0} is not measured by this tracer; name it when loading")]
    NotMeasured(u32),
    /// The thread of this CPU was set after the programs were attached.
    #[error("the thread of CPU {0} was named after attaching; name it before")]
    AlreadyAttached(u32),
    /// No program of any group could be attached.
    #[error("no BPF program could be attached: {0}; `vmnoise doctor` tries each group alone")]
    NothingAttached(String),
    /// The ring buffer could not be read.
    #[error("the BPF ring buffer cannot be read: {0}; records since the last read are lost")]
    Ring(std::io::Error),
}
