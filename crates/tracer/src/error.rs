//! Errors of the BPF programs, with their remedies.

/// The reason why the BPF programs could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// This kernel, or the rights of this process, do not allow it. A run can continue without BPF.
    /// The fields are plain sentences without a full stop.
    #[error("{why}; {remedy}")]
    Refused {
        /// The obstacle.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// The programs should load here, but do not.
    #[error("the BPF programs do not load: {0}; please report this line with the kernel version")]
    Broken(String),
}

/// An error of tracing after the programs are loaded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no such CPU, or [`crate::Tracer::load`] was not called for this CPU.
    #[error("CPU {0} is not measured by this tracer; name it when loading")]
    NotMeasured(u32),
    /// The thread of a CPU was named too late.
    #[error("the thread of CPU {0} was named after attaching; name it before")]
    AlreadyAttached(u32),
    /// No program of any group could be attached.
    #[error("no BPF program could be attached: {0}; `vmnoise doctor` tries each group alone")]
    NothingAttached(String),
    /// The ring buffer could not be read.
    #[error("the BPF ring buffer cannot be read: {0}; records since the last read are lost")]
    Ring(std::io::Error),
}
