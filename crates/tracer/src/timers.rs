//! Status of this machine's timers: the shortest time after which they can fire, and the devices
//! that fire them.

use vmnoise_events::ProbeStatus;

use vmnoise_host::Host;

const PROBE: &str = "timers";
/// Largest shortest time of a device, in ns, that is no limit. The kernel's own work until a timer
/// expires takes longer.
const SOON_NS: u64 = 10_000;

/// Returns a status that names the device with the longest shortest time, and the limits of this
/// device.
pub fn timers(host: &Host) -> ProbeStatus {
    let devices = match host.clock_event_devices() {
        Ok(devices) => devices,
        Err(error) => return probe_status("unknown", false, error.to_string(), "run as root"),
    };
    let Some(device) = devices.iter().max_by_key(|device| device.min_delta_ns) else {
        let none = "/proc/timer_list names no device of a CPU";
        return probe_status("unknown", false, none.to_owned(), "");
    };
    let name = device.name.as_str();
    if device.min_delta_ns > SOON_NS {
        let late = format!(
            "a timer fires {} ns after it was set at the earliest: a timer that is due sooner is late",
            device.min_delta_ns
        );
        return match name {
            "xen" => probe_status(
                name,
                false,
                late + "; this is TIMER_SLOP of Linux in Xen, which xen_timer_slop= sets",
                "boot this guest with xen_timer_slop=5000 (ns)",
            ),
            _ => probe_status(name, false, late, ""),
        };
    }
    match (name, host.hypervisor()) {
        ("lapic" | "lapic-deadline", Some(hypervisor)) => emulated_lapic(name, &hypervisor),
        _ => probe_status(name, true, String::new(), ""),
    }
}

/// Returns the status of the interrupt controller's own timer (LAPIC). In a guest this timer is
/// emulated: setting it causes an exit, and a timer of the host fires instead.
fn emulated_lapic(name: &str, hypervisor: &str) -> ProbeStatus {
    let emulated = "the hypervisor emulates it: setting a timer is an exit, and a timer of the \
                    host fires in its place";
    // The signature of every KVM begins with `KVM`, also under Firecracker.
    if !hypervisor.starts_with("KVM") {
        return probe_status(name, true, emulated.to_owned(), "");
    }
    match name {
        "lapic-deadline" => {
            let advance = "; run `vmnoise doctor` on the host to see lapic_timer_advance";
            probe_status(name, true, emulated.to_owned() + advance, "")
        }
        _ => probe_status(
            name,
            false,
            emulated.to_owned() + "; not every host fires it ahead of time in this mode",
            "give this guest the CPU flag tsc-deadline, which lapic_timer_advance of the host's \
             KVM needs",
        ),
    }
}

fn probe_status(name: &str, best: bool, limit: String, remedy: &str) -> ProbeStatus {
    ProbeStatus {
        probe: PROBE.into(),
        in_use: name.into(),
        best,
        limit: limit.into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_host::fixtures::tree;

    fn list(name: &str, min_delta_ns: u64) -> String {
        format!(
            "Tick Device: mode:     1\nPer CPU device: 0\nClock Event Device: {name}\n \
             min_delta_ns:   {min_delta_ns}\n"
        )
    }

    /// Returns the status on a machine with this `/proc/timer_list` and these files.
    fn reported(timer_list: &str, files: &[(&str, &str)]) -> ProbeStatus {
        let (_root, host) = tree(&[&[("proc/timer_list", timer_list)], files].concat());
        timers(&host)
    }

    #[test]
    fn xens_timer_slop_is_a_limit_that_the_command_line_moves() {
        let slop = reported(&list("xen", 100_000), &[]);
        assert_eq!((slop.in_use.as_str(), slop.best), ("xen", false));
        assert!(slop.limit.contains("100000 ns"), "{slop:?}");
        assert!(slop.limit.contains("xen_timer_slop="), "{slop:?}");
        assert!(slop.remedy.contains("xen_timer_slop="), "{slop:?}");
        assert!(reported(&list("xen", 5000), &[]).best);
    }

    #[test]
    fn a_slow_device_of_another_kind_has_no_such_remedy() {
        let pit = reported(&list("pit", 27_000), &[]);
        assert!(!pit.best && pit.remedy.is_empty(), "{pit:?}");
    }

    #[test]
    fn the_timer_of_a_guest_is_emulated_and_that_of_a_machine_is_not() {
        let guest = [("proc/cpuinfo", "flags : hypervisor\n")];
        for name in ["lapic", "lapic-deadline"] {
            let bare = reported(&list(name, 1000), &[]);
            assert!(bare.best && bare.limit.is_empty(), "{bare:?}");
            let unnamed = reported(&list(name, 1000), &guest);
            assert!(
                unnamed.best && unnamed.limit.contains("an exit"),
                "{unnamed:?}"
            );
        }
        let deadline = emulated_lapic("lapic-deadline", "KVM (Firecracker)");
        assert!(deadline.best && deadline.limit.contains("lapic_timer_advance"));
        let one_shot = emulated_lapic("lapic", "KVM");
        assert!(!one_shot.best && one_shot.remedy.contains("tsc-deadline"));
    }

    #[test]
    fn what_is_not_reported_is_unknown() {
        for list in ["", "Tick Device: mode:     0\nPer CPU device: 0\n"] {
            assert_eq!(reported(list, &[]).in_use, "unknown");
        }
    }
}
