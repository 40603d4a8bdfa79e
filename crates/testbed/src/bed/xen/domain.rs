//! Writes the configuration of a Xen guest for `xl`.

use std::path::Path;

/// Type of a Xen guest. It determines how much of the guest's machine is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XenType {
    /// PV: the guest knows that it has no hardware.
    Pv,
    /// PVH: the guest has its own page tables, and no hardware except its CPU.
    Pvh,
    /// HVM: the guest has a whole machine, which a QEMU in Dom0 emulates.
    Hvm,
}

impl XenType {
    /// Returns the type's name in xl.cfg(5).
    fn name(self) -> &'static str {
        match self {
            XenType::Pv => "pv",
            XenType::Pvh => "pvh",
            XenType::Hvm => "hvm",
        }
    }
}

/// Settings of a Xen guest with one vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XenDomain {
    /// Type of the guest.
    pub kind: XenType,
    /// CPU of the machine to which the vCPU is pinned; `None` for any CPU.
    pub cpu: Option<u32>,
    /// Words that are appended to the command line of the guest's kernel.
    pub command_line: String,
    /// Whether Xen emulates each time that the guest reads the TSC.
    pub emulates_tsc: bool,
}

impl XenDomain {
    /// Memory of the guest in MiB.
    pub const MEMORY_MIB: u32 = 512;

    /// Creates a guest of this type with default settings.
    pub fn of(kind: XenType) -> XenDomain {
        XenDomain {
            kind,
            cpu: None,
            command_line: String::new(),
            emulates_tsc: false,
        }
    }

    /// Returns the guest's configuration as in xl.cfg(5), one setting per line. The domain remains
    /// after the guest's end, so that the whole console can be read.
    pub(super) fn text(&self, name: &str, [kernel, initramfs]: [&Path; 2]) -> String {
        let line = format!(
            "console=hvc0 quiet panic=-1 random.trust_cpu=off {}",
            self.command_line
        );
        let tsc_mode = match self.emulates_tsc {
            true => "always_emulate",
            false => "default",
        };
        let settings = [
            ("tsc_mode", format!("{tsc_mode:?}")),
            ("name", format!("{name:?}")),
            ("type", format!("{:?}", self.kind.name())),
            ("kernel", format!("{kernel:?}")),
            ("ramdisk", format!("{initramfs:?}")),
            ("cmdline", format!("{:?}", line.trim_end())),
            ("memory", XenDomain::MEMORY_MIB.to_string()),
            ("vcpus", "1".to_owned()),
            ("on_poweroff", "\"preserve\"".to_owned()),
            ("on_crash", "\"preserve\"".to_owned()),
        ];
        let mut text = settings
            .map(|(key, value)| format!("{key}={value}\n"))
            .concat();
        if let Some(cpu) = self.cpu {
            text += &format!("cpus=\"{cpu}\"\n");
        }
        if self.kind == XenType::Hvm {
            // No screen, because its firmware would be additional code to emulate.
            text += "vnc=0\nvga=\"none\"\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xl_is_told_what_was_asked_for_and_no_more() {
        let files = ["/a/kernel", "/a/initramfs"].map(Path::new);
        let plain = XenDomain::of(XenType::Pvh).text("one", files);
        for line in [
            "name=\"one\"",
            "type=\"pvh\"",
            "ramdisk=\"/a/initramfs\"",
            "tsc_mode=\"default\"",
        ] {
            assert!(plain.lines().any(|it| it == line), "{line}: {plain}");
        }
        assert!(
            !plain.contains("cpus=\"") && !plain.contains("vga"),
            "{plain}"
        );
        let domain = XenDomain {
            cpu: Some(3),
            command_line: "xen_timer_slop=5000".to_owned(),
            emulates_tsc: true,
            ..XenDomain::of(XenType::Hvm)
        };
        let text = domain.text("two", files);
        for words in [
            "cpus=\"3\"",
            "vga=\"none\"",
            "always_emulate",
            " xen_timer_slop=5000\"",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
