//! Clock event devices: the devices that interrupt each CPU for its timers, and their minimum
//! delays.

use std::io;

use super::Host;

/// Clock event device of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockEventDevice {
    /// CPU whose timers the device serves.
    pub cpu: u32,
    /// Name of the device in the kernel: `lapic-deadline`, `xen`, ….
    pub name: String,
    /// Minimum time after which the device can fire, in nanoseconds. A timer that expires earlier
    /// fires late. On Xen, this time is `xen_timer_slop`: 100 us unless a kernel option changes it
    /// (TIMER_SLOP of arch/x86/xen/time.c).
    pub min_delta_ns: u64,
}

impl Host {
    /// Returns the clock event devices of all CPUs, ascending by CPU; empty if the kernel reports
    /// no devices.
    ///
    /// # Errors
    /// If /proc/timer_list cannot be read. Only root may read it.
    pub fn clock_event_devices(&self) -> io::Result<Vec<ClockEventDevice>> {
        Ok(devices(&self.text("proc/timer_list")?))
    }
}

/// Reads the text that print_tickdevice writes (kernel/time/timer_list.c). Each block has the
/// device's CPU, its name and its numbers.
fn devices(timer_list: &str) -> Vec<ClockEventDevice> {
    let (mut cpu, mut name) = (None, None);
    let mut devices = Vec::new();
    for line in timer_list.lines() {
        match line.split_once(':') {
            Some(("Tick Device", _)) => (cpu, name) = (None, None),
            Some(("Per CPU device", number)) => cpu = number.trim().parse().ok(),
            Some(("Clock Event Device", words)) => name = Some(words.trim()),
            Some((" min_delta_ns", number)) => {
                let named = cpu.zip(name).zip(number.trim().parse().ok());
                devices.extend(named.map(|((cpu, name), min_delta_ns)| ClockEventDevice {
                    cpu,
                    name: name.to_owned(),
                    min_delta_ns,
                }));
            }
            _ => {}
        }
    }
    devices.sort_by_key(|device| device.cpu);
    devices
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use crate::fixtures::tree;

    /// Shortened text with a broadcast device that belongs to no CPU, two CPUs, and a CPU without a
    /// device.
    const TIMER_LIST: &str = "Timer List Version: v0.9\nnow at 5 nsecs\n\n\
        Tick Device: mode:     1\nBroadcast device\nClock Event Device: hpet\n \
        max_delta_ns:   149983013277\n min_delta_ns:   13409\n mode:           1\n\
        tick_broadcast_mask: 0\n\n\
        Tick Device: mode:     1\nPer CPU device: 2\nClock Event Device: xen\n \
        max_delta_ns:   18446744073709551615\n min_delta_ns:   100000\n mult:           1\n\n\
        Tick Device: mode:     1\nPer CPU device: 0\nClock Event Device: lapic-deadline\n \
        min_delta_ns:   1000\n\n\
        Tick Device: mode:     0\nPer CPU device: 3\nClock Event Device: <NULL>\n";

    #[test]
    fn each_cpu_has_a_device() {
        let (_root, host) = tree(&[("proc/timer_list", TIMER_LIST)]);
        let devices = host.clock_event_devices().unwrap();
        let reported: Vec<_> = devices
            .iter()
            .map(|it| (it.cpu, it.name.as_str(), it.min_delta_ns))
            .collect();
        assert_eq!(reported, [(0, "lapic-deadline", 1000), (2, "xen", 100_000)]);
    }

    #[test]
    fn a_list_that_may_not_be_read_is_no_empty_list() {
        let (_root, host) = machine();
        assert!(host.clock_event_devices().is_err());
    }
}
