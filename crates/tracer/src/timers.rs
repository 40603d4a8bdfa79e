//! How soon this machine's timers can fire.

use vmnoise_events::Rung;

use crate::host::Host;

const PROBE: &str = "timers";
/// A device that can be set to this is no limit: what the kernel does on the way to a
/// timer's expiry takes longer.
const SOON_NS: u64 = 10_000;

/// Names the device that can fire the least soon, and what that means.
pub fn timers(host: &Host) -> Rung {
    let unknown = |why: String, remedy: &str| Rung {
        probe: PROBE.to_owned(),
        rung: "unknown".to_owned(),
        best: false,
        limit: why,
        remedy: remedy.to_owned(),
    };
    let devices = match host.clock_event_devices() {
        Ok(devices) => devices,
        Err(error) => return unknown(error.to_string(), "run as root"),
    };
    let Some(device) = devices.iter().max_by_key(|device| device.min_delta_ns) else {
        return unknown("/proc/timer_list names no device of a CPU".into(), "");
    };
    let best = device.min_delta_ns <= SOON_NS;
    let (limit, remedy) = match (best, device.name.as_str()) {
        (true, _) => (String::new(), ""),
        (false, name) => (
            format!(
                "a timer never fires sooner than {} ns after it was set: one that is due before is late",
                device.min_delta_ns
            ),
            if name == "xen" {
                "boot this guest with xen_timer_slop=5000 (ns)"
            } else {
                ""
            },
        ),
    };
    Rung {
        probe: PROBE.to_owned(),
        rung: device.name.clone(),
        best,
        limit,
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(timer_list: &str) -> Rung {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/timer_list"), timer_list).unwrap();
        timers(&Host::under(root.path()))
    }

    fn list(name: &str, min_delta_ns: u64) -> String {
        format!(
            "Tick Device: mode:     1\nPer CPU device: 0\nClock Event Device: {name}\n \
             min_delta_ns:   {min_delta_ns}\n"
        )
    }

    #[test]
    fn xens_timer_slop_is_a_limit_that_the_command_line_moves() {
        let slop = told(&list("xen", 100_000));
        assert_eq!((slop.rung.as_str(), slop.best), ("xen", false));
        assert!(slop.limit.contains("100000 ns"), "{slop:?}");
        assert!(slop.remedy.contains("xen_timer_slop="), "{slop:?}");
        assert!(told(&list("xen", 5000)).best);
    }

    #[test]
    fn a_slow_device_of_another_kind_has_no_such_remedy() {
        let pit = told(&list("pit", 27_000));
        assert!(!pit.best && pit.remedy.is_empty(), "{pit:?}");
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        for list in ["", "Tick Device: mode:     0\nPer CPU device: 0\n"] {
            assert_eq!(told(list).rung, "unknown");
        }
    }
}
