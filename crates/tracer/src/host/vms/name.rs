//! What people call a VM, and which of its threads are vCPUs. Pure.

/// Thread names of vCPUs: what stands before the number, and after it.
const VCPU_THREADS: [(&str, &str); 6] = [
    // QEMU with debug-threads=on, hence libvirt.
    ("CPU ", "/KVM"),
    ("fc_vcpu ", ""),
    // cloud-hypervisor.
    ("vcpu", ""),
    ("crosvm_vcpu", ""),
    // kvmtool.
    ("kvm-vcpu-", ""),
    ("vmnoise-vcpu", ""),
];

/// The number of the vCPU whose thread has this name; `None` for any other thread.
pub(super) fn vcpu_of_thread(comm: &str) -> Option<u32> {
    VCPU_THREADS.iter().find_map(|(before, after)| {
        let number = comm.strip_prefix(before)?.strip_suffix(after)?;
        number.parse().ok()
    })
}

/// The name on a VMM's command line (arguments ended by NUL, proc(5)); `None` if it was
/// given none.
pub(super) fn of(cmdline: &[u8]) -> Option<String> {
    let words: Vec<String> = cmdline
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let program = words.first()?.rsplit('/').next()?;
    let name = if program.starts_with("qemu") || program == "kvm" {
        qemu_name(&option(&words, &["-name", "--name"])?)
    } else if program.starts_with("firecracker") || program.starts_with("jailer") {
        option(&words, &["--id"])?
    } else if program.starts_with("cloud-hypervisor") {
        socket_name(&option(&words, &["--api-socket"])?)
    } else if program.starts_with("crosvm") || program.starts_with("lkvm") {
        option(&words, &["--name", "-n"])?
    } else {
        return None;
    };
    (!name.is_empty()).then_some(name)
}

/// The value of the first of these options, as `--name value` or `--name=value`.
fn option(words: &[String], names: &[&str]) -> Option<String> {
    words.iter().enumerate().find_map(|(place, word)| {
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

/// `guest=NAME,debug-threads=on` as libvirt writes it, or `NAME,process=…`.
fn qemu_name(value: &str) -> String {
    let mut parts = value.split(',');
    let guest = parts.clone().find_map(|part| part.strip_prefix("guest="));
    guest.or(parts.next()).unwrap_or_default().to_owned()
}

/// cloud-hypervisor has no names: its API socket is what distinguishes its VMs.
fn socket_name(value: &str) -> String {
    let path = value.strip_prefix("path=").unwrap_or(value);
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(words: &[&str]) -> Option<String> {
        of((words.join("\0") + "\0").as_bytes())
    }

    #[test]
    fn every_vmm_has_its_own_way() {
        for (words, expected) in [
            (
                vec![
                    "/usr/bin/qemu-system-x86_64",
                    "-name",
                    "guest=db,debug-threads=on",
                ],
                Some("db"),
            ),
            (
                vec!["qemu-system-x86_64", "-name", "l2,debug-threads=on"],
                Some("l2"),
            ),
            (vec!["qemu-system-x86_64", "-m", "256"], None),
            (vec!["/srv/firecracker", "--id", "vm-7"], Some("vm-7")),
            (
                vec!["firecracker", "--id=vm-8", "--api-sock", "x"],
                Some("vm-8"),
            ),
            (
                vec!["cloud-hypervisor", "--api-socket", "path=/run/ch/web.sock"],
                Some("web"),
            ),
            (vec!["crosvm", "run", "--name", "arc"], Some("arc")),
            (vec!["lkvm", "run", "-n", "small"], Some("small")),
            (vec!["myvmm", "--id", "x"], None),
            (vec!["qemu-system-x86_64", "-name"], None),
        ] {
            assert_eq!(name(&words).as_deref(), expected, "{words:?}");
        }
        assert_eq!(of(b""), None);
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
