//! Result of checking a setting.

/// One bad place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// The file, or the kernel's command line.
    pub path: String,
    /// Name of the instance; empty if there is only one.
    pub instance: String,
    /// Name for people; empty if it has no other name.
    pub name: String,
    /// The found value.
    pub found: String,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// All places are good.
    Good,
    /// This kernel has no such setting.
    Absent,
    /// It could not be read. This is the file.
    Denied(String),
    /// These places are bad.
    Bad(Vec<Bad>),
}
