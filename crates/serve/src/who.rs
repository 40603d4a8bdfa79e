//! Who had the CPU for which a vCPU waited.

use vmnoise_events::Name;

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A task of somebody else.
    Foreign,
    /// A thread of the VM's own VMM.
    Own,
    /// A vCPU of another VM, under the name of that.
    Vm,
}

impl Kind {
    /// As it is called in the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Foreign => "foreign",
            Kind::Own => "own",
            Kind::Vm => "vm",
        }
    }
}

/// Who had a VM's CPUs while it waited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    /// The pod, container or unit that it is in; `None` where that is not known, and of those that are
    /// not foreign.
    pub(crate) cgroup: Option<Name>,
}
