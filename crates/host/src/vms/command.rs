//! Facts about a VM from its VMM's command line, and vCPU numbers from thread names. The functions
//! read no files.

use super::super::uuid::uuid;

/// Names of vCPU threads: the text before and after the number of the vCPU.
const VCPU_THREADS: [(&str, &str); 6] = [
    // QEMU with debug-threads=on, so also libvirt.
    ("CPU ", "/KVM"),
    ("fc_vcpu ", ""),
    // cloud-hypervisor.
    ("vcpu", ""),
    ("crosvm_vcpu", ""),
    // kvmtool.
    ("kvm-vcpu-", ""),
    ("vmnoise-vcpu", ""),
];

/// Returns the number of the vCPU whose thread has this name; `None` for any other thread.
pub(super) fn vcpu_of_thread(comm: &str) -> Option<u32> {
    VCPU_THREADS.iter().find_map(|(before, after)| {
        let number = comm.strip_prefix(before)?.strip_suffix(after)?;
        number.parse().ok()
    })
}

/// Facts about a VM from the command line of its VMM; `None` if the command line does not contain
/// the fact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Name of the VMM; `None` if this crate does not know the program.
    pub(super) vmm: Option<&'static str>,
    pub(super) name: Option<String>,
    pub(super) uuid: Option<String>,
    /// Number of the VM in Proxmox.
    pub(super) vmid: Option<String>,
}

/// Parses a command line in the format of proc(5), in which a NUL ends each argument.
pub(super) fn told(cmdline: &[u8]) -> Told {
    let words: Vec<String> = cmdline
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let path = words.first().map_or("", String::as_str);
    let program = path.rsplit('/').next().unwrap_or_default();
    let mut told = if program.starts_with("qemu") || program == "kvm" {
        qemu(&words)
    } else if program.starts_with("firecracker") || program.starts_with("jailer") {
        named("firecracker", option(&words, &["--id"]))
    } else if program.starts_with("cloud-hypervisor") {
        let socket = option(&words, &["--api-socket"]);
        named(
            "cloud-hypervisor",
            socket.and_then(|socket| socket_name(&socket)),
        )
    } else if program.starts_with("crosvm") {
        named("crosvm", option(&words, &["--name"]))
    } else if program.starts_with("lkvm") {
        named("kvmtool", option(&words, &["--name", "-n"]))
    } else {
        Told::default()
    };
    told.name = told.name.filter(|name| !name.is_empty());
    told
}

fn named(vmm: &'static str, name: Option<String>) -> Told {
    Told {
        vmm: Some(vmm),
        name,
        ..Told::default()
    }
}

/// Parses QEMU's options, which have one or two dashes. libvirt passes the UUID in `-uuid`. Proxmox
/// passes the UUID only in the SMBIOS data. It also uses `-id`, which only Proxmox's QEMU accepts.
fn qemu(words: &[String]) -> Told {
    let name = option(words, &["-name", "--name"]);
    let value = option(words, &["-uuid", "--uuid"]).or_else(|| smbios_uuid(words));
    let vmid = option(words, &["-id", "--id"]);
    Told {
        uuid: value.and_then(|value| uuid(&value)),
        vmid: vmid.filter(|vmid| vmid.parse::<u32>().is_ok()),
        ..named("qemu", name.and_then(|name| qemu_name(&name)))
    }
}

/// Returns the value of the first option that has one of these names. Options have the form `--name
/// value` or `--name=value`.
fn option(words: &[String], names: &[&str]) -> Option<String> {
    options(words, names).next()
}

fn options<'a>(words: &'a [String], names: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    words.iter().enumerate().filter_map(|(place, word)| {
        names.iter().find_map(|name| {
            let rest = word.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if rest.is_empty() => words.get(place + 1).cloned(),
                None => None,
            }
        })
    })
}

/// Returns the name of the VM in the value of `-name`. libvirt writes
/// `guest=NAME,debug-threads=on`. Users may also write `NAME,process=…`.
fn qemu_name(value: &str) -> Option<String> {
    let parts = parts(value);
    let guest = parts.iter().find_map(|part| part.strip_prefix("guest="));
    let first = parts.first().filter(|part| !part.contains('='));
    guest.or(first.map(String::as_str)).map(str::to_owned)
}

/// Splits the value of a QEMU option at its commas. A double comma stands for a comma inside a
/// part.
fn parts(value: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ',' && letters.next_if_eq(&',').is_none() {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    parts
}

fn smbios_uuid(words: &[String]) -> Option<String> {
    options(words, &["-smbios", "--smbios"]).find_map(|value| {
        let parts = parts(&value);
        let is_system = parts.iter().any(|part| part == "type=1");
        let mut uuids = parts.iter().filter_map(|part| part.strip_prefix("uuid="));
        uuids.next().filter(|_| is_system).map(str::to_owned)
    })
}

/// Returns a name for a VM of cloud-hypervisor, which has no names, from the path of the API
/// socket. Kata gives all sockets the same file name, so the name then comes from the folder.
fn socket_name(value: &str) -> Option<String> {
    let mut parts = value.split(',');
    let path = parts
        .clone()
        .find_map(|part| part.strip_prefix("path="))
        .or(parts.next().filter(|part| !part.contains('=')))?;
    let mut names = path.rsplit('/');
    let file = names.next()?;
    if file == "clh-api.sock" {
        return names.next().map(str::to_owned);
    }
    file.split('.').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Told {
        told((words.join("\0") + "\0").as_bytes())
    }

    #[test]
    fn every_vmm_has_its_own_way() {
        for (words, vmm, name) in [
            (
                vec!["qemu-system-x86_64", "-name", "l2,debug-threads=on"],
                Some("qemu"),
                Some("l2"),
            ),
            (vec!["qemu-system-x86_64", "-m", "256"], Some("qemu"), None),
            (
                vec!["qemu-kvm", "-name", "debug-threads=on"],
                Some("qemu"),
                None,
            ),
            (vec!["qemu-system-x86_64", "-name"], Some("qemu"), None),
            (
                vec!["/srv/firecracker", "--id", "vm-7"],
                Some("firecracker"),
                Some("vm-7"),
            ),
            (
                vec!["crosvm", "run", "--name", "arc"],
                Some("crosvm"),
                Some("arc"),
            ),
            (
                vec!["lkvm", "run", "-n", "small"],
                Some("kvmtool"),
                Some("small"),
            ),
            (vec!["myvmm", "--id", "x"], None, None),
        ] {
            let told = of(&words);
            assert_eq!((told.vmm, told.name.as_deref()), (vmm, name), "{words:?}");
        }
        assert_eq!(told(b""), Told::default());
    }

    #[test]
    fn a_socket_names_a_vm_of_cloud_hypervisor() {
        for (value, name) in [
            ("path=/run/ch/web.sock", Some("web")),
            ("/run/ch/web.sock", Some("web")),
            ("/run/vc/vm/4f2a/clh-api.sock", Some("4f2a")),
            ("fd=3", None),
        ] {
            let told = of(&["cloud-hypervisor", "--api-socket", value]);
            assert_eq!(told.name.as_deref(), name, "{value}");
        }
    }

    /// libvirt 9.0 doubles commas in this way.
    #[test]
    fn a_name_may_have_commas() {
        let told = of(&["qemu", "-name", "guest=foo=1,,bar=2,debug-threads=on"]);
        assert_eq!(told.name.as_deref(), Some("foo=1,bar=2"));
    }

    #[test]
    fn a_uuid_is_one_or_unknown() {
        let uuid = "C7A5FDBD-CDAF-9455-926A-D65C16DB1809";
        assert_eq!(
            of(&["qemu", "-uuid", uuid]).uuid.as_deref(),
            Some("c7a5fdbd-cdaf-9455-926a-d65c16db1809")
        );
        for other in ["", "c7a5", "c7a5fdbd-cdaf-9455-926a-d65c16db180g"] {
            assert_eq!(of(&["qemu", "-uuid", other]).uuid, None, "{other}");
        }
        let of_a_board = format!("type=2,uuid={uuid}");
        assert_eq!(of(&["qemu", "-smbios", &of_a_board]).uuid, None);
    }

    #[test]
    fn vcpu_threads_are_known_by_their_names() {
        for (comm, expected) in [
            ("CPU 3/KVM", Some(3)),
            ("fc_vcpu 0", Some(0)),
            ("vcpu12", Some(12)),
            ("crosvm_vcpu1", Some(1)),
            ("kvm-vcpu-2", Some(2)),
            ("vmnoise-vcpu1", Some(1)),
            ("IO mon_iothread", None),
            ("vcpu", None),
            ("CPU x/KVM", None),
        ] {
            assert_eq!(vcpu_of_thread(comm), expected, "{comm}");
        }
    }
}
