//! Tests that the metrics have the identity of a VM that a real libvirtd started. virsh provides
//! the expected identity.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use vmnoise_testbed::binary;
use vmnoise_testkit::TestProcess;

use crate::harness::Serve;

/// Name of the VM. It contains a comma, which is the separator in QEMU's option.
const NAME: &str = "front,desk";
/// Runs libvirtd with its own files, processes and users, separate from those of the machine. The
/// VM runs its firmware, which finds nothing to boot and halts. The script then prints the VM's
/// UUID, and ends when its stdin is closed.
const SCRIPT: &str = r#"
set -e
for folder in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run; do
	mkdir -p $folder
	mount -t tmpfs libvirt $folder
done
for file in passwd group; do
	cp /etc/$file /run/$file
	echo "libvirt-qemu:x:0:0::/:/bin/false" >> /run/$file
	mount --bind /run/$file /etc/$file
done
cat > /etc/libvirt/qemu.conf <<-END
	user = "root"
	group = "root"
	dynamic_ownership = 0
	security_driver = "none"
	namespaces = []
	cgroup_controllers = []
	stdio_handler = "file"
END
echo 'auth_unix_rw = "none"' > /etc/libvirt/libvirtd.conf
cat > /run/domain.xml <<-END
	<domain type='kvm'>
	  <name>$1</name>
	  <memory unit='MiB'>32</memory>
	  <vcpu>1</vcpu>
	  <os><type arch='x86_64' machine='pc'>hvm</type></os>
	  <devices>
	    <emulator>/usr/bin/qemu-system-x86_64</emulator>
	    <controller type='usb' model='none'/>
	    <memballoon model='none'/>
	  </devices>
	</domain>
END
libvirtd -f /etc/libvirt/libvirtd.conf 2> /run/libvirtd &
until virsh -q uri > /dev/null 2>&1; do
	kill -0 $! || { cat /run/libvirtd >&2; exit 1; }
	sleep 0.1
done
virsh -q define /run/domain.xml > /dev/null
virsh -q start "$1" > /dev/null
virsh -q domuuid "$1"
cat
"#;

/// Starts libvirtd and the VM. Returns libvirtd, with which the VM ends, and the VM's UUID.
fn start() -> (TestProcess, String) {
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
        ])
        .args(["-c", SCRIPT, "sh", NAME])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut libvirtd = TestProcess::start(&mut command);
    let mut uuid = String::new();
    let mut stdout = BufReader::new(libvirtd.stdout.take().unwrap());
    stdout.read_line(&mut uuid).unwrap();
    assert!(
        !uuid.is_empty(),
        "libvirtd has not started its VM (VMNOISE_TEST_TOOLS=1 scripts/setup installs it)"
    );
    (libvirtd, uuid.trim().to_owned())
}

#[test]
fn a_domain_is_told_by_the_name_and_the_uuid_that_virsh_tells() {
    let serve = Serve::start();
    let (_libvirtd, uuid) = start();
    // The VM has no cgroup, because this libvirtd may not create one.
    serve.wait_for(&format!(
        "vmnoise_vm_info{{vm=\"{NAME}\",vmm=\"qemu\",uuid=\"{uuid}\"}}"
    ));
    let list = Command::new(binary())
        .args(["exits", "--list", "--format", "json"])
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let vms = list["vms"].as_array().unwrap();
    let vm = vms.iter().find(|vm| vm["name"] == NAME).unwrap();
    assert_eq!(vm["identity"]["uuid"], uuid, "{vm}");
    assert_eq!(vm["vcpus"].as_array().unwrap().len(), 1, "{vm}");
}
