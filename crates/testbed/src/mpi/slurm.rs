//! Starts a Slurm with one node: munged, slurmctld and slurmd of Debian's slurm-wlm. All of their
//! files are in one folder.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::vmm::wait_for;

/// A running Slurm. It ends when this value is dropped.
#[derive(Debug)]
pub struct Slurm {
    configuration: PathBuf,
    /// Running programs of Slurm, in the order of their start.
    daemons: Vec<Child>,
}

impl Slurm {
    /// Starts Slurm, and waits until its node accepts jobs.
    ///
    /// # Errors
    /// If a program of Slurm is not installed, or Slurm does not start.
    pub fn start(folder: &Path) -> Result<Slurm> {
        for name in ["state", "spool"] {
            fs::create_dir(folder.join(name))?;
        }
        // munged requires that every user can reach the folder of its socket.
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        let key = folder.join("munge.key");
        fs::write(&key, fastrand::u128(..).to_string().repeat(4))?;
        fs::set_permissions(&key, Permissions::from_mode(0o600))?;
        let configuration = folder.join("slurm.conf");
        fs::write(&configuration, configured(folder)?)?;
        let mut slurm = Slurm {
            configuration,
            daemons: Vec::new(),
        };
        let file = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
        slurm.add(
            folder,
            Command::new("munged").arg("--foreground").args([
                file("socket", "munge.socket"),
                file("key-file", "munge.key"),
                file("log-file", "munged.log"),
                file("pid-file", "munged.pid"),
                file("seed-file", "munged.seed"),
            ]),
        )?;
        wait_for("munged", || Ok(folder.join("munge.socket").exists()))?;
        for daemon in ["slurmctld", "slurmd"] {
            let mut command = Command::new(daemon);
            slurm.add(
                folder,
                command.args(["-D", "-f"]).arg(folder.join("slurm.conf")),
            )?;
        }
        wait_for("the node of Slurm", || Ok(slurm.takes_jobs()))
            .with_context(|| format!("see the logs in {}", folder.display()))?;
        Ok(slurm)
    }

    /// Returns the path of Slurm's configuration, for the environment variable `SLURM_CONF`.
    pub(super) fn configuration(&self) -> &Path {
        &self.configuration
    }

    fn add(&mut self, folder: &Path, command: &mut Command) -> Result<()> {
        let name = command.get_program().display().to_string();
        let log = fs::File::create(folder.join(format!("{name}.out")))?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let daemon = command.spawn();
        let daemon = daemon.with_context(|| format!("{name} (Debian's package slurm-wlm)"))?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn takes_jobs(&self) -> bool {
        let mut sinfo = Command::new("sinfo");
        sinfo.env("SLURM_CONF", &self.configuration);
        let state = sinfo.args(["--noheader", "--format=%T"]).output();
        state.is_ok_and(|state| state.stdout.trim_ascii() == b"idle")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // On SIGTERM, slurmctld also ends a process that it has started.
            if let Some(pid) = Pid::from_raw(daemon.id().cast_signed()) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = wait_for("its end", || Ok(daemon.try_wait()?.is_some()));
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Returns a slurm.conf(5) in which this machine is the only node. It is for this test only: Slurm
/// finds the processes of a job by their parents, creates no cgroup, and pins no rank.
fn configured(folder: &Path) -> Result<String> {
    let name = rustix::system::uname();
    let name = name
        .nodename()
        .to_str()
        .context("the name of this machine is not UTF-8")?;
    let name = name.split('.').next().unwrap_or(name);
    let cpus = std::thread::available_parallelism()?;
    let [control, node] = free_ports()?;
    let folder = folder.display();
    Ok(format!(
        "ClusterName=vmnoise\n\
         SlurmctldHost={name}(127.0.0.1)\n\
         SlurmctldPort={control}\n\
         SlurmdPort={node}\n\
         SlurmUser=root\n\
         AuthInfo=socket={folder}/munge.socket\n\
         StateSaveLocation={folder}/state\n\
         SlurmdSpoolDir={folder}/spool\n\
         SlurmctldPidFile={folder}/slurmctld.pid\n\
         SlurmdPidFile={folder}/slurmd.pid\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         MpiDefault=none\n\
         NodeName={name} NodeAddr=127.0.0.1 CPUs={cpus}\n\
         PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE\n"
    ))
}

/// Returns two free TCP ports of this machine.
fn free_ports() -> Result<[u16; 2]> {
    let listeners = [
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    ];
    let [control, node] = listeners.each_ref().map(TcpListener::local_addr);
    Ok([control?.port(), node?.port()])
}
