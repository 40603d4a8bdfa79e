//! Parameters of this host's KVM for the timers and halts of its guests.

use serde::Serialize;

use super::Host;

/// Setting of KVM's timer advance: KVM fires a guest's timer before the timer is due, so that the
/// entry into the guest is finished in time (arch/x86/kvm/lapic.c). It applies to timers in
/// TSC-deadline mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LapicTimerAdvance {
    /// KVM adjusts the advance for each vCPU by itself.
    Adaptive,
    /// The administrator has set the advance, in nanoseconds.
    Fixed(u64),
    /// There is no advance. Timers fire when they are due, and reach the guest later.
    Off,
}

impl Host {
    /// Returns the maximum time for which KVM polls when a vCPU halts, in nanoseconds. It applies
    /// to VMs without a limit of their own. Returns `None` if KVM is not loaded or has no such
    /// parameter.
    pub fn halt_poll_ns(&self) -> Option<u64> {
        self.kvm_number("halt_poll_ns")
    }

    /// Returns the first value to which KVM raises a vCPU's polling time from 0, in nanoseconds;
    /// `None` if KVM is not loaded or has no such parameter.
    pub fn halt_poll_ns_grow_start(&self) -> Option<u64> {
        self.kvm_number("halt_poll_ns_grow_start")
    }

    fn kvm_number(&self, parameter: &str) -> Option<u64> {
        let value = self.line(&format!("sys/module/kvm/parameters/{parameter}"));
        value.ok()?.parse().ok()
    }

    /// Returns the setting of KVM's timer advance; `None` if KVM is not loaded or has no such
    /// parameter.
    pub fn lapic_timer_advance(&self) -> Option<LapicTimerAdvance> {
        let parameter = |name: &str| self.line(&format!("sys/module/kvm/parameters/{name}")).ok();
        // The parameter is a switch since Linux 6.10. Before, it was a number of nanoseconds, in
        // which -1 meant that the switch is on.
        match parameter("lapic_timer_advance").as_deref() {
            Some("Y") => return Some(LapicTimerAdvance::Adaptive),
            Some("N") => return Some(LapicTimerAdvance::Off),
            _ => {}
        }
        match parameter("lapic_timer_advance_ns")?.parse::<i64>().ok()? {
            -1 => Some(LapicTimerAdvance::Adaptive),
            0 => Some(LapicTimerAdvance::Off),
            ns => u64::try_from(ns).ok().map(LapicTimerAdvance::Fixed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    #[test]
    fn each_way_that_kernels_have_it_is_read() {
        const SWITCH: &str = "sys/module/kvm/parameters/lapic_timer_advance";
        const NS: &str = "sys/module/kvm/parameters/lapic_timer_advance_ns";
        for (file, text, reported) in [
            (SWITCH, "Y\n", Some(LapicTimerAdvance::Adaptive)),
            (SWITCH, "N\n", Some(LapicTimerAdvance::Off)),
            (NS, "-1\n", Some(LapicTimerAdvance::Adaptive)),
            (NS, "0\n", Some(LapicTimerAdvance::Off)),
            (NS, "5000\n", Some(LapicTimerAdvance::Fixed(5000))),
            (NS, "-2\n", None),
            ("sys/module/kvm/parameters/halt_poll_ns", "0\n", None),
        ] {
            let (_root, host) = tree(&[(file, text)]);
            assert_eq!(host.lapic_timer_advance(), reported, "{file}: {text}");
            let halt_poll_ns = file.ends_with("halt_poll_ns").then_some(0);
            assert_eq!(host.halt_poll_ns(), halt_poll_ns);
        }
    }
}
