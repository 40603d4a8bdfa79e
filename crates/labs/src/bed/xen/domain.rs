//! A guest of Xen, as `xl` is told of it.

use std::path::Path;

/// What a guest of Xen knows of that, and so how it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XenType {
    /// It knows that it has no hardware.
    Pv,
    /// It has its own page tables, and no hardware but its CPU.
    Pvh,
    /// It has a whole machine, which a QEMU in Dom0 emulates.
    Hvm,
}

impl XenType {
    /// As xl.cfg(5) has it.
    fn name(self) -> &'static str {
        match self {
            XenType::Pv => "pv",
            XenType::Pvh => "pvh",
            XenType::Hvm => "hvm",
        }
    }
}

/// A guest of one vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XenDomain {
    /// Of which type.
    pub kind: XenType,
    /// The one CPU of the machine that its vCPU has, if it is not any.
    pub cpu: Option<u32>,
    /// What its kernel is told besides.
    pub command_line: String,
    /// Whether Xen answers each time that it reads the TSC.
    pub emulates_tsc: bool,
}

impl XenDomain {
    /// How much memory it has.
    pub const MEMORY_MIB: u32 = 512;

    /// One as it comes.
    pub fn of(kind: XenType) -> XenDomain {
        XenDomain {
            kind,
            cpu: None,
            command_line: String::new(),
            emulates_tsc: false,
        }
    }

    /// What xl.cfg(5) describes, a setting a line, with this name, kernel and initramfs. A guest that has
    /// ended stays, so that all it said is read.
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
            // No screen: its firmware would be one more to emulate.
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
