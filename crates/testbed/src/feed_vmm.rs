//! VMMs with a socket at which a helper process answers the host in place of the guest.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;

use crate::run::{binary, lab_program};
use crate::tied::TiedProcess;
use crate::vmm::wait_for;

/// Names of the socket, of the file for everything that the helper process receives, and of the
/// file for the VMM's output.
const FILES: [&str; 3] = ["socket", "received", "said"];

/// A VMM (or another process) with a helper process that answers the host in place of the guest.
/// Both end when this value is dropped.
#[derive(Debug)]
pub struct FeedVmm {
    process: TiedProcess,
    folder: TempDir,
}

impl FeedVmm {
    /// Starts a command, and the helper process, which behaves as `manners` says
    /// (`lab-programs/feed_vmm.rs`). Returns when the socket exists.
    ///
    /// # Errors
    /// If a program cannot be started, or creates no socket.
    pub fn start(manners: &str, command: &[&str]) -> Result<FeedVmm> {
        let folder = tempfile::tempdir()?;
        let [socket, received, said] = FILES.map(|name| folder.path().join(name));
        let mut arguments = vec![socket.as_os_str(), OsStr::new(manners), received.as_os_str()];
        arguments.extend(command.iter().map(OsStr::new));
        let process = TiedProcess::start(&lab_program("lab-feed-vmm")?, &arguments, &said)?;
        wait_for("a socket", || Ok(socket.exists()))?;
        Ok(FeedVmm { process, folder })
    }

    /// Starts a microVM on this CPU, with further options. Returns when it has a vCPU.
    ///
    /// # Errors
    /// As for [`start`](Self::start), and if the microVM gets no vCPU.
    pub fn microvm(manners: &str, cpu: u32, options: &[&str]) -> Result<FeedVmm> {
        let (binary, cpu) = (binary().display().to_string(), cpu.to_string());
        let mut command = vec![&*binary, "microvm", "-c", &cpu, "-d", "60s"];
        command.extend(options);
        let vmm = FeedVmm::start(manners, &command)?;
        wait_for("a vCPU", || Ok(has_vcpu(vmm.pid())))?;
        Ok(vmm)
    }

    /// Returns the process ID of the VMM.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the address of the socket for `--feed` and `--dumps-for`. `way` is `unix` or
    /// `vsock`.
    pub fn address(&self, way: &str) -> String {
        format!("{way}:{}", self.folder.path().join(FILES[0]).display())
    }

    /// Returns everything that the helper process has received from the host and kept.
    pub fn received(&self) -> Vec<u8> {
        fs::read(self.folder.path().join(FILES[1])).unwrap_or_default()
    }
}

/// Returns whether a process has a vCPU of KVM.
fn has_vcpu(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut files = files.into_iter().flatten().flatten();
    files.any(|file| {
        let target = fs::read_link(file.path());
        target.is_ok_and(|target| target == Path::new("anon_inode:kvm-vcpu:0"))
    })
}
