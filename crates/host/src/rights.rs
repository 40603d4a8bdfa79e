//! Rights of this process: capabilities and kernel lockdown.

/// Capabilities that matter for vmnoise. The number of a capability is its bit
/// (include/uapi/linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Right to lock more memory than the limit allows.
    IpcLock = 14,
    /// Right to do everything that BPF needs, and much more.
    SysAdmin = 21,
    /// Right to set real-time priorities and negative nice values.
    SysNice = 23,
    /// Right to load tracing programs, in combination with [`Capability::Bpf`].
    Perfmon = 38,
    /// Right to load BPF programs.
    Bpf = 39,
}

impl Capability {
    /// Returns the name of the capability in capabilities(7).
    pub const fn name(self) -> &'static str {
        match self {
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysNice => "CAP_SYS_NICE",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// A set of effective capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Returns the set in the `CapEff:` line of /proc/PID/status; `None` if there is no such line.
    pub(super) fn from_status(status: &str) -> Option<Capabilities> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Capabilities)
    }

    /// Returns whether this capability is in the set.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }
}

/// Level of kernel lockdown (kernel_lockdown(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lockdown {
    /// The kernel is not locked down.
    None,
    /// User space may not change the kernel. BPF tracing works, but kprobes may not.
    Integrity,
    /// User space may neither change nor read the kernel. BPF tracing is refused.
    Confidentiality,
}

impl Lockdown {
    /// Returns the level that is in brackets in the text of /sys/kernel/security/lockdown.
    pub(super) fn parse(text: &str) -> Option<Lockdown> {
        let (_, rest) = text.split_once('[')?;
        match rest.split_once(']')?.0 {
            "none" => Some(Lockdown::None),
            "integrity" => Some(Lockdown::Integrity),
            "confidentiality" => Some(Lockdown::Confidentiality),
            _ => None,
        }
    }

    /// Returns the kernel's name for the level.
    pub const fn name(self) -> &'static str {
        match self {
            Lockdown::None => "none",
            Lockdown::Integrity => "integrity",
            Lockdown::Confidentiality => "confidentiality",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_bits() {
        let status = "Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t000000c000204000\n";
        let capabilities = Capabilities::from_status(status).unwrap();
        for capability in [
            Capability::IpcLock,
            Capability::SysAdmin,
            Capability::Perfmon,
            Capability::Bpf,
        ] {
            assert!(capabilities.has(capability), "{}", capability.name());
        }
        assert!(!capabilities.has(Capability::SysNice));
        assert_eq!(Capabilities::from_status("Name:\tx\n"), None);
    }

    #[test]
    fn the_level_in_brackets_is_in_force() {
        assert_eq!(
            Lockdown::parse("none [integrity] confidentiality\n"),
            Some(Lockdown::Integrity)
        );
        assert_eq!(
            Lockdown::parse("[none] integrity confidentiality\n"),
            Some(Lockdown::None)
        );
        assert_eq!(Lockdown::parse("none integrity\n"), None);
    }
}
