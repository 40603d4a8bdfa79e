//! Finds out on which hypervisor this machine runs.

use super::Host;

impl Host {
    /// Returns the name of the hypervisor on which this machine runs (`KVM`, `Xen`, …); `None` on
    /// bare metal. The sources are /sys/hypervisor/type and the `hypervisor` flag of /proc/cpuinfo.
    /// The name comes from `cpuid` leaf 0x40000000.
    pub fn hypervisor(&self) -> Option<String> {
        if self
            .line("sys/hypervisor/type")
            .is_ok_and(|name| name == "xen")
        {
            let guest = self.line("sys/hypervisor/guest_type");
            return Some(guest.map_or_else(|_| "Xen".to_owned(), |kind| format!("Xen {kind}")));
        }
        self.is_guest().then(|| match (self.signature)() {
            Some("KVM") if self.is_firecracker() => "KVM (Firecracker)".to_owned(),
            signature => signature.unwrap_or("unnamed").to_owned(),
        })
    }

    /// Returns whether the CPUs of this machine report that they belong to a guest (flag
    /// `hypervisor` of /proc/cpuinfo).
    pub fn is_guest(&self) -> bool {
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let is_flag = |flags: &str| flags.split_whitespace().any(|flag| flag == "hypervisor");
        lines.any(|(key, flags)| key.trim() == "flags" && is_flag(flags))
    }

    /// Returns whether the hypervisor is Firecracker. Firecracker has no DMI that contains its
    /// name. But bytes 10 to 15 of each of its ACPI tables contain its id (ACPI 6.5, section
    /// 5.2.6). Only root may read these tables.
    fn is_firecracker(&self) -> bool {
        let table = self.root.join("sys/firmware/acpi/tables/APIC");
        std::fs::read(table).is_ok_and(|table| table.get(10..16) == Some(b"FIRECK"))
    }
}

/// Returns the name of the hypervisor whose signature `cpuid` returns. A signature has twelve
/// characters.
#[cfg(target_arch = "x86_64")]
pub(super) fn signature() -> Option<&'static str> {
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let letters: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    match letters.as_slice() {
        b"KVMKVMKVM\0\0\0" | b"Linux KVM Hv" => Some("KVM"),
        b"XenVMMXenVMM" => Some("Xen"),
        b"Microsoft Hv" => Some("Hyper-V"),
        b"VMwareVMware" => Some("VMware"),
        b"TCGTCGTCGTCG" => Some("QEMU TCG"),
        b"bhyve bhyve " => Some("bhyve"),
        b"ACRNACRNACRN" => Some("ACRN"),
        _ => None,
    }
}

/// Other architectures have no `cpuid` instruction.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn signature() -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use crate::fixtures::tree;

    #[test]
    fn the_flag_tells_a_guest() {
        let (_root, mut host) =
            tree(&[("proc/cpuinfo", "flags\t\t: fpu hypervisor tsc\nbugs\t: x\n")]);
        assert_eq!(host.hypervisor().as_deref(), Some("unnamed"));
        host.signature = || Some("KVM");
        assert_eq!(host.hypervisor().as_deref(), Some("KVM"));
        let (_root, mut bare) = machine();
        bare.signature = || Some("KVM");
        assert_eq!(bare.hypervisor(), None);
    }

    #[test]
    fn a_guest_is_known_by_the_flags_of_its_cpus() {
        for (cpuinfo, is_guest) in [
            ("flags\t\t: fpu hypervisor tsc\n", true),
            ("flags\t\t: fpu tsc\nmodel name\t: hypervisor\n", false),
            ("", false),
        ] {
            let (_root, host) = tree(&[("proc/cpuinfo", cpuinfo)]);
            assert_eq!(host.is_guest(), is_guest, "{cpuinfo}");
        }
        assert!(!tree(&[]).1.is_guest());
    }

    #[test]
    fn xen_says_so_in_sys() {
        let (_root, host) = tree(&[("sys/hypervisor/type", "xen\n")]);
        assert_eq!(host.hypervisor().as_deref(), Some("Xen"));
        for kind in ["PV", "PVH", "HVM"] {
            let guest_type = format!("{kind}\n");
            let files = [
                ("sys/hypervisor/type", "xen\n"),
                ("sys/hypervisor/guest_type", guest_type.as_str()),
            ];
            let (_root, host) = tree(&files);
            assert_eq!(host.hypervisor(), Some(format!("Xen {kind}")));
        }
    }

    #[test]
    fn firecracker_signs_its_acpi_tables() {
        let named = |oem: &str| {
            let table = format!("APICH\0\0\0\u{6}V{oem}FCVMMADT");
            let files = [
                ("proc/cpuinfo", "flags\t\t: hypervisor\n"),
                ("sys/firmware/acpi/tables/APIC", table.as_str()),
            ];
            let (_root, mut host) = tree(&files);
            host.signature = || Some("KVM");
            host.hypervisor()
        };
        assert_eq!(named("FIRECK").as_deref(), Some("KVM (Firecracker)"));
        assert_eq!(named("BOCHS ").as_deref(), Some("KVM"));
    }
}
