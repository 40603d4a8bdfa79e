//! Tests that VMs, their vCPUs' numbers and threads, and their guests' clocks are found without
//! debugfs. They must be equal to those in debugfs.

use serde_json::{Value, json};
use vmnoise_testbed::bed::{DebianKernel, DebianSuite, Lab};
use vmnoise_testbed::installed::{LOADER, with_libraries};
use vmnoise_testbed::lab_program;

use crate::recorded::clocks;

/// Returns the number and the thread of each vCPU of a VM in the output of `vmnoise exits --list`.
fn listed(list: &Value, name: &str) -> Value {
    let mut vms = list["vms"].as_array().unwrap().iter();
    let vm = vms.find(|vm| vm["name"] == name);
    let vm = vm.unwrap_or_else(|| panic!("no {name} in {list}"));
    let vcpus = vm["vcpus"].as_array().unwrap().iter();
    vcpus
        .map(|vcpu| json!([vcpu["vcpu"], vcpu["tid"]]))
        .collect()
}

/// Compares the lists while no vCPU thread has a name. QEMU names these threads only on request, so
/// only the walk over files finds them.
fn assert_finds_the_same_on(kernel: DebianKernel, suite: DebianSuite) {
    const LIST: &str = "vmnoise exits --list --format json";
    let as_nobody = format!(
        "{LOADER} /bin/setpriv --reuid=65534 --regid=65534 --clear-groups \
         --inh-caps=-all,+bpf,+perfmon --ambient-caps=-all,+bpf,+perfmon \
         --bounding-set=-all,+bpf,+perfmon /bin/{LIST}"
    );
    let mut lab = Lab::kernel(kernel)
        .from(suite)
        .guest(&["lab-tracefs for 1"])
        .program(&lab_program("lab-guest").unwrap())
        .program(&lab_program("lab-tracefs").unwrap());
    for file in with_libraries("setpriv", "util-linux").unwrap() {
        lab = lab.program(&file);
    }
    let report = lab
        .run(&[
            "& lab-guest boot -name guest=web,debug-threads=off -smp 2 -no-shutdown",
            "lab-guest told 1",
            "lab-guest vcpus",
            "lab-guest offset",
            "lab-guest without-debugfs",
            LIST,
            &as_nobody,
            "vmnoise doctor --format json",
            "vmnoise exits top -q -d 3s -o /tmp/host.vmn",
            "lab-guest print /tmp/host.vmn",
        ])
        .unwrap();
    let [
        _,
        vcpus,
        offset,
        _,
        as_root,
        as_nobody,
        doctor,
        _,
        recording,
    ] = &report.outputs[..]
    else {
        panic!("{} outputs", report.outputs.len())
    };
    let vcpus = vcpus.json().unwrap();
    let offset: i64 = offset.text().unwrap().trim().parse().unwrap();
    println!(
        "{suite:?} {kernel:?}: Linux {}: {vcpus}, offset {offset}",
        report.kernel_version
    );
    // Both vCPUs have run, because one boots the other.
    assert_eq!(vcpus.as_array().unwrap().len(), 2, "{vcpus}");
    assert_eq!(listed(&as_root.json().unwrap(), "web"), vcpus);
    assert_eq!(listed(&as_nobody.json().unwrap(), "web"), vcpus);
    let doctor = doctor.text().unwrap();
    assert!(doctor.contains("BPF iterator over files"), "{doctor}");

    let recording = recording.file().unwrap();
    let clocks = clocks(recording.as_slice());
    let first = clocks.iter().find(|(vcpu, _)| vcpu.number == Some(0));
    let (_, clock) = first.unwrap_or_else(|| panic!("{clocks:?}"));
    // A guest's TSC starts at 0 when the guest boots. This machine's TSC had run for a while by
    // then.
    assert!(offset < 0, "{offset}");
    assert_eq!(clock.offset_tsc, offset, "{clocks:?}");
    assert_eq!(
        clock.guest_tsc(1 << 40),
        (1_u64 << 40).checked_add_signed(offset)
    );
}

mod kvm {
    use std::path::Path;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use vmnoise_testbed::{TiedProcess, VmnoiseRun, binary, with_debugfs};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);
    const QEMU: &str = "/usr/bin/qemu-system-x86_64";
    /// The machine runs only firmware, and none of its threads is named as a vCPU.
    const MACHINE: &str = "-accel kvm -nodefaults -display none -smp 2 -name found";
    /// Script that prints the number, the thread and the TSC offset of each vCPU. It reads the
    /// folders of a process in KVM's debugfs.
    const BY_DEBUGFS: &str = "for vcpu in /sys/kernel/debug/kvm/$1-*/vcpu*; do \
                              echo ${vcpu##*/vcpu} $(cat $vcpu/pid) $(cat $vcpu/tsc-offset); done";

    /// Runs a command with `vmnoise exits --list`, and returns its JSON.
    fn list(mut command: Command) -> Value {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs this script in namespaces of its own, and returns the JSON that it prints. `$1` in the
    /// script is `vmnoise`.
    fn list_within(namespaces: &[&str], script: &str) -> Value {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", script, "sh"]);
        command.arg(binary());
        list(command)
    }

    fn list_without_debugfs() -> Value {
        let script = "! mountpoint -q /sys/kernel/debug || umount -R /sys/kernel/debug && \
                      exec \"$1\" exits --list --format json";
        list_within(&["--mount"], script)
    }

    /// Returns the vCPUs in KVM's debugfs. The list is empty until a vCPU has run.
    fn by_debugfs(pid: u32) -> Value {
        let mut command = with_debugfs(Path::new("sh"));
        let output = command.args(["-c", BY_DEBUGFS, "sh", &pid.to_string()]);
        let output = String::from_utf8(output.output().unwrap().stdout).unwrap();
        let vcpus = output.lines().filter_map(|line| {
            let words: Vec<i64> = line.split(' ').map_while(|it| it.parse().ok()).collect();
            let [number, tid, offset] = words[..] else {
                return None;
            };
            assert_eq!(offset, 0, "kvm_pvm never sets an offset");
            (tid != 0).then(|| json!([number, tid]))
        });
        vcpus.collect()
    }

    /// Waits until all vCPUs have run, and compares the list with debugfs.
    fn assert_are_listed(pid: u32, name: &str, count: usize) {
        let begin = Instant::now();
        let vcpus = loop {
            let vcpus = by_debugfs(pid);
            if vcpus.as_array().unwrap().len() == count {
                break vcpus;
            }
            assert!(begin.elapsed() < PATIENCE, "{name}: {vcpus}");
        };
        assert_eq!(listed(&list_without_debugfs(), name), vcpus, "{name}");
    }

    #[test]
    fn those_of_microvms_and_of_qemu() {
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let start = |program: &Path, line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            TiedProcess::start(program, &words, &said).unwrap()
        };
        let microvm = start(&binary(), "microvm -d 1m -c 0,1");
        let name = format!("vmnoise:{}", microvm.pid());
        assert_are_listed(microvm.pid(), &name, 2);
        let qemu = start(Path::new(QEMU), MACHINE);
        assert_are_listed(qemu.pid(), "found", 2);
    }

    /// Lists VMs inside a container. The container's own VM must be listed with the process IDs of
    /// the kernel, as in everything that BPF programs report. A VM of the machine must not be taken
    /// for a process that has the same ID in the container.
    #[test]
    fn a_container_has_its_own_vms_and_nobody_elses() {
        let _others = VmnoiseRun::microvm(0, &["-d", "1m"]).unwrap();
        let script = "\"$1\" microvm -d 1m -c 1 >/dev/null 2>&1 & vm=$!; \
                      until \"$1\" exits --list | grep -q vmnoise; do sleep 0.1; done; \
                      \"$1\" exits --list --format json; kill $vm; wait";
        let namespaces = ["--pid", "--fork", "--kill-child", "--mount-proc"];
        let list = list_within(&namespaces, script);
        let [vm] = &list["vms"].as_array().unwrap()[..] else {
            panic!("{list}")
        };
        let (pid, tid) = (vm["vm"].as_u64().unwrap(), &vm["vcpus"][0]["tid"]);
        assert_eq!(vm["name"], format!("vmnoise:{pid}"), "{list}");
        // The VM is the third process in the container, but is listed with its ID on the machine.
        assert!(pid > 10 && tid.as_u64().unwrap() > pid, "{list}");
        assert_eq!(vm["vcpus"][0]["cpus"], "1", "{list}");
        // Here /proc is the machine's, and does not show the processes of the namespace.
        let namespaces = ["--pid", "--fork", "--kill-child"];
        let list = list_within(&namespaces, "\"$1\" exits --list --format json");
        assert_eq!(list["vms"], json!([]));
    }
}

mod lab {
    use super::*;

    #[test]
    fn cloud() {
        assert_finds_the_same_on(DebianKernel::Cloud, DebianSuite::Own);
    }
}

mod lab_full {
    use super::*;

    #[test]
    fn trixie() {
        assert_finds_the_same_on(DebianKernel::Cloud, DebianSuite::Trixie);
    }

    #[test]
    fn trixie_backports() {
        assert_finds_the_same_on(DebianKernel::Cloud, DebianSuite::TrixieBackports);
    }
}
