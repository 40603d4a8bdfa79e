//! KVM's vendor module, and whether it posts interrupts.

use std::fs;
use std::io::Read;

use super::{Host, KVM_PVM};

/// Number of bytes in which the first CPU of /proc/cpuinfo certainly fits. With a thousand CPUs,
/// the whole file is a thousand times as long.
const FIRST_CPU_BYTES: u64 = 8 << 10;

impl Host {
    /// Returns the name of KVM's vendor module (`kvm_intel`, `kvm_amd`, `kvm_pvm`), whether it is
    /// loaded or built in; `None` if there is none. If both vendors' modules are built in, the
    /// instruction set of the CPU decides.
    pub fn kvm_module(&self) -> Option<String> {
        let of_vendors = match self.virtualization() {
            Some(only) => vec![only],
            None => vec!["kvm_intel", "kvm_amd"],
        };
        let modules = [KVM_PVM].into_iter().chain(of_vendors);
        let exists = |module: &&str| self.root.join("sys/module").join(module).exists();
        modules.into_iter().find(exists).map(str::to_owned)
    }

    /// Returns the vendor module that works on this CPU; `None` if /proc/cpuinfo does not show any.
    fn virtualization(&self) -> Option<&'static str> {
        let cpuinfo = fs::File::open(self.root.join("proc/cpuinfo")).ok()?;
        let mut first_cpu = Vec::new();
        cpuinfo
            .take(FIRST_CPU_BYTES)
            .read_to_end(&mut first_cpu)
            .ok()?;
        let first_cpu = String::from_utf8_lossy(&first_cpu);
        let mut lines = first_cpu.lines().filter_map(|line| line.split_once(':'));
        let (_, flags) = lines.find(|(key, _)| key.trim() == "flags")?;
        flags.split_ascii_whitespace().find_map(|flag| match flag {
            "vmx" => Some("kvm_intel"),
            "svm" => Some("kvm_amd"),
            _ => None,
        })
    }

    /// Returns whether KVM may use posted interrupts, whose vectors (`PIN`, `NPI` and `PIW` of
    /// /proc/interrupts) have no tracepoint. Only VMX has posted interrupts, and only with APICv
    /// (vmx_can_use_vtd_pi and enable_apicv of arch/x86/kvm/vmx). If the module kvm_intel does not
    /// report whether it uses APICv, the result is `true`.
    pub fn posts_interrupts(&self) -> bool {
        let apicv = self.line("sys/module/kvm_intel/parameters/enable_apicv");
        let is_intel = self.kvm_module().as_deref() == Some("kvm_intel");
        is_intel && apicv.map_or(true, |apicv| apicv != "N")
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::tree;

    #[test]
    fn of_two_modules_that_are_built_in_the_one_for_this_cpu_counts() {
        let of = |flags: &str, module: &str| {
            let cpuinfo = format!("processor\t: 0\nflags\t\t: fpu {flags} tsc\n");
            let (_root, host) = tree(&[
                ("proc/cpuinfo", &cpuinfo),
                ("sys/module/kvm_intel/parameters/ept", "Y\n"),
                ("sys/module/kvm_amd/parameters/npt", "Y\n"),
                (&format!("sys/module/{module}/version"), ""),
            ]);
            (host.kvm_module().unwrap(), host.posts_interrupts())
        };
        assert_eq!(of("svm", "kvm"), ("kvm_amd".to_owned(), false));
        assert_eq!(of("vmx", "kvm"), ("kvm_intel".to_owned(), true));
        assert_eq!(of("svm", "kvm_pvm"), ("kvm_pvm".to_owned(), false));
    }

    #[test]
    fn vmx_posts_interrupts_unless_it_says_that_it_does_not() {
        const APICV: &str = "sys/module/kvm_intel/parameters/enable_apicv";
        for (file, text, posts) in [
            (APICV, "Y\n", true),
            (APICV, "N\n", false),
            ("sys/module/kvm_intel/version", "", true),
            ("sys/module/kvm_amd/parameters/avic", "Y\n", false),
        ] {
            let (_root, host) = tree(&[(file, text)]);
            assert_eq!(host.posts_interrupts(), posts, "{file}: {text}");
        }
    }
}
