//! Status of the clock source that this machine's kernel uses.

use vmnoise_events::ProbeStatus;

use vmnoise_host::Host;

/// Returns a status that names the clock source, and its limits.
pub fn clock(host: &Host) -> ProbeStatus {
    let source = host
        .facts()
        .map_or_else(|_| "unknown".into(), |facts| facts.clocksource);
    let (limit, remedy) = match source.as_str() {
        "tsc" => ("", ""),
        // arch/x86/kernel/kvmclock.c, arch/x86/xen/time.c, drivers/clocksource/hyperv_timer.c.
        "kvm-clock" | "xen" | "hyperv_clocksource_tsc_page" => (
            "the host sets the rate of this guest's clock, and may correct it during a run: times \
             of the TSC and of the kernel's clock then differ by the correction",
            "boot with clocksource=tsc if the host keeps the TSC constant (CPU flags \
             constant_tsc and nonstop_tsc)",
        ),
        "hpet" | "acpi_pm" => (
            "the kernel reads the time from a device; if a hypervisor emulates the device, each \
             reading is an exit, and part of each latency",
            "read in the kernel's log why it does not use the TSC, and boot with tsc=reliable if \
             the hardware or hypervisor keeps the TSC constant",
        ),
        _ => (
            "the kernel does not use the TSC as its clock, so it may not be constant",
            "boot with clocksource=tsc if the hardware or hypervisor keeps the TSC constant",
        ),
    };
    ProbeStatus {
        probe: "clock".into(),
        best: limit.is_empty(),
        in_use: source,
        limit: limit.into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_host::fixtures::tree;

    fn reported(source: &str) -> ProbeStatus {
        let (_root, host) = tree(&[
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/cpuinfo", ""),
            ("proc/self/status", "Cpus_allowed_list:\t0\n"),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                source,
            ),
        ]);
        clock(&host)
    }

    #[test]
    fn each_kind_of_clock_has_its_own_limit() {
        assert!(reported("tsc\n").best);
        for (source, limit, remedy) in [
            ("kvm-clock", "the host sets the rate", "clocksource=tsc"),
            ("xen", "the host sets the rate", "clocksource=tsc"),
            ("hpet", "a device", "tsc=reliable"),
            ("arch_sys_counter", "may not be constant", "clocksource=tsc"),
        ] {
            let probe_status = reported(source);
            assert_eq!(
                (probe_status.in_use.as_str(), probe_status.best),
                (source, false)
            );
            assert!(probe_status.limit.contains(limit), "{probe_status:?}");
            assert!(probe_status.remedy.contains(remedy), "{probe_status:?}");
        }
    }
}
