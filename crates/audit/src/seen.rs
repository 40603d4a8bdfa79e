//! What was seen of a fact.

/// One place where it is not good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// The file, or the kernel's command line.
    pub path: String,
    /// Which of several it is; empty where there is one.
    pub instance: String,
    /// What people call it; empty where it has no other name.
    pub name: String,
    /// What it is set to.
    pub found: String,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// All is well.
    Good,
    /// This kernel has no such setting.
    Absent,
    /// It could not be read: which file.
    Denied(String),
    /// It is not good here.
    Bad(Vec<Bad>),
}
