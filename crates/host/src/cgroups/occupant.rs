//! Finds the pod, container or VM in a cgroup, from the path of the cgroup. The functions read no
//! files.
//!
//! Sources: systemd (src/basic/unit-name.c, cgroup-util.c: escapes), kubelet
//! (pkg/kubelet/cm/cgroup_manager_linux.go: both drivers), containerd (internal/cri/server/helpers_linux.go:
//! `slice:cri-containerd:id`), CRI-O (internal/config/cgmgr: `crio-id.scope`), libvirt
//! (src/util/virsystemd.c, vircgroupv1.c: `machine-….scope`, `….libvirt-qemu`), Proxmox VE
//! (PVE/QemuServer.pm: `qemu.slice/VMID.scope`).

use super::super::uuid::uuid;

/// Pod, container, VM or unit in a cgroup, as far as the path shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Occupant {
    /// UID of the Kubernetes pod.
    pub(crate) pod_uid: Option<String>,
    /// Container in the cgroup. In a pod it is the outermost container, which the pod's runtime
    /// knows.
    pub(crate) container: Option<Container>,
    /// Name of the VM's scope, as libvirt set it. libvirt may have shortened it, and may have
    /// removed characters that host names do not allow.
    pub(crate) machine: Option<String>,
    /// Number of the VM in Proxmox.
    pub(crate) vmid: Option<String>,
    /// Name of the systemd service or scope. Scopes of containers and of libvirt are not included.
    pub(crate) unit: Option<String>,
}

/// A container of a container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    /// Id of the container: 64 hexadecimal digits.
    pub(crate) id: String,
    /// Runtime that created the container, for instance `cri-containerd`, `crio` or `docker`; empty
    /// if the path does not show it.
    pub(crate) runtime: String,
}

/// Returns the cgroup of a process from the text of /proc/PID/cgroup. The unified hierarchy has
/// precedence over systemd's hierarchy, and systemd's over the hierarchies of controllers. The root
/// group is ignored.
pub(crate) fn path_of(file: &str) -> Option<&str> {
    let mut paths: Vec<(u8, &str)> = file
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let order = match controllers {
                "" => 0,
                "name=systemd" => 1,
                _ => 2,
            };
            Some((order, path.strip_suffix(" (deleted)").unwrap_or(path)))
        })
        .filter(|(_, path)| *path != "/")
        .collect();
    paths.sort_by_key(|(order, _)| *order);
    paths.first().map(|(_, path)| *path)
}

/// Returns what the path shows about the pod, container, VM or unit in the cgroup.
pub(crate) fn of(path: &str) -> Occupant {
    let mut occupant = Occupant::default();
    let mut before = "";
    for name in path.split('/').flat_map(names) {
        // systemd puts this prefix before a name that would otherwise equal the name of a kernel
        // file.
        let name = name.strip_prefix('_').unwrap_or(name);
        if let Some(uid) = pod_uid(name) {
            occupant = Occupant {
                pod_uid: Some(uid),
                ..Occupant::default()
            };
        } else if let Some(container) = container(name) {
            if occupant.pod_uid.is_none() || occupant.container.is_none() {
                occupant.container = Some(container);
            }
            occupant.unit = None;
        } else if let Some(machine) = machine(name) {
            occupant.machine = Some(machine);
            occupant.unit = None;
        } else if name.ends_with(".service") || name.ends_with(".scope") {
            occupant.unit = Some(name.to_owned());
            occupant.vmid = vmid(before, name);
        }
        before = name;
    }
    occupant
}

/// Splits the name of a folder. If systemd is not runc's cgroup driver, one folder has the name
/// `SLICE:cri-containerd:ID`.
fn names(name: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = match name.split_once(".slice:") {
        Some((slice, container)) => vec![slice, container],
        None => vec![name],
    };
    parts.into_iter()
}

/// Returns the UID of the pod that the name of a cgroup contains. The driver cgroupfs names the
/// group `podUID`. The driver systemd names it `kubepods-burstable-podUID.slice`, and writes each
/// `-` of the UID as `_`. The UID of a static pod has 32 digits.
fn pod_uid(name: &str) -> Option<String> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = match name.rsplit_once("-pod") {
        Some((before, uid)) => before.contains("kubepods").then_some(uid)?,
        None => name.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    (is_digits(&uid, 32) || uuid(&uid).is_some()).then_some(uid)
}

/// Returns the container that the name contains: `crio-ID.scope`, `cri-containerd:ID`, `kata_ID`,
/// or only the id.
fn container(name: &str) -> Option<Container> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (runtime, id) = match name.rfind(['-', ':', '_']) {
        Some(end) => (&name[..end], &name[end + 1..]),
        None => ("", name),
    };
    is_digits(id, 64).then(|| Container {
        id: id.to_owned(),
        runtime: runtime.to_owned(),
    })
}

/// Returns the name of the VM that the name of a scope contains. With systemd, the scope is
/// `machine-qemu\x2d1\x2dNAME.scope`; without systemd, `qemu-1-NAME.libvirt-qemu`.
fn machine(name: &str) -> Option<String> {
    let scope = name
        .strip_prefix("machine-")
        .and_then(|name| name.strip_suffix(".scope"));
    let name = match scope {
        Some(scope) => unescape(scope),
        None => name.strip_suffix(".libvirt-qemu")?.to_owned(),
    };
    let (number, name) = name.strip_prefix("qemu-")?.split_once('-')?;
    let is_numbered = number.parse::<u32>().is_ok() && !name.is_empty();
    is_numbered.then(|| name.to_owned())
}

fn vmid(slice: &str, name: &str) -> Option<String> {
    let vmid = name.strip_suffix(".scope")?;
    (slice == "qemu.slice" && vmid.parse::<u32>().is_ok()).then(|| vmid.to_owned())
}

fn is_digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Replaces systemd's escapes by their characters. For instance, `\x2d` becomes a dash.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let code = rest
            .strip_prefix(b"\\x")
            .and_then(|rest| std::str::from_utf8(rest.get(..2)?).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6c1a4e95-6bb6-11e6-bc26-28d2444e470d";
    const ID: &str = "446c65ab43d490ab8d7f693a46050db88f66a2bf657eda0c3de8bc8bab516be4";

    #[test]
    fn a_pod_is_known_below_both_drivers() {
        let escaped = UID.replace('-', "_");
        let static_pod = "0a8e63ab4e4e6fbd6b4c5a5b61e2ba5a";
        for (path, runtime, uid) in [
            (
                format!(
                    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{escaped}.slice/cri-containerd-{ID}.scope"
                ),
                "cri-containerd",
                UID,
            ),
            (
                format!("/kubepods.slice/kubepods-pod{static_pod}.slice/crio-{ID}.scope/container"),
                "crio",
                static_pod,
            ),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), "", UID),
            (
                format!("/kubepods/burstable/pod{UID}/crio-{ID}"),
                "crio",
                UID,
            ),
            (format!("/kubepods/pod{UID}/kata_{ID}"), "kata", UID),
            (
                format!(
                    "/system.slice/containerd.service/kubepods-burstable-pod{escaped}.slice:cri-containerd:{ID}"
                ),
                "cri-containerd",
                UID,
            ),
            // The path of the cgroup as another container sees it.
            (
                format!("/../../kubepods-burstable-pod{escaped}.slice/docker-{ID}.scope"),
                "docker",
                UID,
            ),
            // A node of kind, which is itself a container.
            (
                format!(
                    "/docker/{}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{escaped}.slice/cri-containerd-{ID}.scope",
                    "7".repeat(64)
                ),
                "cri-containerd",
                UID,
            ),
            // A container inside a container of the pod. The node's runtime knows only the outer
            // container.
            (
                format!("/kubepods/pod{UID}/{ID}/docker/{}", "7".repeat(64)),
                "",
                UID,
            ),
        ] {
            let container = Container {
                id: ID.to_owned(),
                runtime: runtime.to_owned(),
            };
            let expected = Occupant {
                pod_uid: Some(uid.to_owned()),
                container: Some(container),
                ..Occupant::default()
            };
            assert_eq!(of(&path), expected, "{path}");
        }
    }

    #[test]
    fn a_machine_of_libvirt_is_unescaped() {
        for (path, name) in [
            (
                r"/machine.slice/machine-qemu\x2d12\x2dweb\x2dfront.scope/libvirt/emulator",
                Some("web-front"),
            ),
            (
                r"/machine.slice/machine-qemu\x2d2\x2dubuntu20.04.scope",
                Some("ubuntu20.04"),
            ),
            ("/machine/qemu-1-web.libvirt-qemu/emulator", Some("web")),
            (r"/machine.slice/machine-lxc\x2d1\x2dweb.scope", None),
            (r"/machine.slice/machine-qemu\x2d1\x2d.scope", None),
        ] {
            assert_eq!(of(path).machine.as_deref(), name, "{path}");
        }
    }

    #[test]
    fn other_units_are_called_by_systemds_name() {
        for (path, unit) in [
            ("/system.slice/web.service", Some("web.service")),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-vm.scope/x",
                Some("app-vm.scope"),
            ),
            ("/system.slice/_cpu.service", Some("cpu.service")),
            ("/user.slice", None),
            ("/podium/podcast", None),
            ("/", None),
        ] {
            let expected = Occupant {
                unit: unit.map(str::to_owned),
                ..Occupant::default()
            };
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn a_vm_of_proxmox_has_a_scope_of_its_number() {
        let occupant = of("/qemu.slice/100.scope");
        assert_eq!(occupant.vmid.as_deref(), Some("100"));
        assert_eq!(of("/user.slice/100.scope").vmid, None);
    }

    #[test]
    fn any_hierarchy_tells_where_a_process_is() {
        for (file, path) in [
            ("0::/qemu.slice/100.scope\n", Some("/qemu.slice/100.scope")),
            (
                "3:cpu,cpuacct:/machine/a\n1:name=systemd:/b:c\n0::/\n",
                Some("/b:c"),
            ),
            ("2:memory:/\n1:cpu:/a (deleted)\n", Some("/a")),
            ("0::/\n", None),
            ("", None),
            ("rubbish\n", None),
        ] {
            assert_eq!(path_of(file), path, "{file}");
        }
    }

    #[test]
    fn escapes_come_back_and_half_ones_stay() {
        assert_eq!(unescape(r"a\x2db"), "a-b");
        assert_eq!(unescape(r"a\x2"), r"a\x2");
        assert_eq!(unescape(r"\xzz\xc3\xa4"), "\\xzzä");
    }
}
