//! Result of the check of a setting.

/// File, thread or process with a bad setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Path of the file. For boot options, the kernel's command line.
    pub path: String,
    /// Name of the instance; empty if the rule has only one instance.
    pub instance: String,
    /// Name for readers; empty if there is no other name than the instance.
    pub name: String,
    /// Value that was found.
    pub found: String,
}

/// Result of the check of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The setting is good everywhere.
    Good,
    /// The setting does not exist on this kernel.
    Absent,
    /// The setting could not be read. Contains the unreadable file.
    Denied(String),
    /// The setting is bad in these files, threads or processes.
    Bad(Vec<Bad>),
}
