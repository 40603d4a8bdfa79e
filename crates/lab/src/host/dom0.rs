//! What this machine is as the Dom0 of a Xen.

use std::fs;

use anyhow::Result;
use vmnoise_labs::bed::{XenDomain, xl};

use super::machine::{Host, is_on_xen, is_root};

/// What says whether this domain may command Xen.
const CAPABILITIES: &str = "/proc/xen/capabilities";
/// What hands on what guests say.
const CONSOLES: &str = "xenconsoled";

/// A Dom0 that creates guests itself.
#[derive(Debug, Clone)]
pub struct Dom0 {
    /// Its own kernel, the CPU that is measured, and what it is without.
    pub host: Host,
    /// The hypervisor below it, where it is without nothing.
    pub xen: Option<Xen>,
}

/// A Xen that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xen {
    /// `4.17.5`.
    pub version: String,
    /// By which it chooses who runs.
    pub scheduler: String,
    /// Of no domain, MiB.
    pub free_mib: u32,
    /// The CPUs of the machine that Dom0's own of the number that is measured may have, as `xl` says it: one, or
    /// `all`.
    pub affinity: String,
}

impl Dom0 {
    /// This one.
    ///
    /// # Errors
    /// If its kernel tells nothing of itself.
    pub fn read() -> Result<Dom0> {
        let mut host = Host::with(lack())?;
        let xen = match host.lack {
            None => Xen::read(host.cpu).map(Some),
            Some(_) => Ok(None),
        };
        let xen = xen.unwrap_or_else(|error| {
            let start = "install Xen's programs (package xen-utils-common) and start them (`systemctl start xen`)";
            let said = format!("{error:#}").replace('\n', "; ");
            host.lack = Some(format!("Xen does not answer: {start}; {said}"));
            None
        });
        Ok(Dom0 { host, xen })
    }
}

impl Dom0 {
    /// What a run does to this machine.
    pub fn effects(&self) -> String {
        let cpu = self.host.cpu;
        let xen = self.xen.as_ref();
        let affinity = xen.map_or("?", |xen| &xen.affinity);
        let where_dom0_is = match affinity == cpu.to_string() {
            true => format!("to which CPU {cpu} of Dom0 is bound: what works there is in its way"),
            false => format!(
                "on which Xen may let Dom0 run too (its CPU {cpu} has the affinity `{affinity}`; with `dom0_vcpus_pin` it \
                 would be there, and no other of Dom0)"
            ),
        };
        format!(
            "This is Linux {release} as Dom0 of Xen {version} with the scheduler {scheduler}, and time is real: leave \
             the machine alone meanwhile. The vCPU of a guest has CPU {cpu} of the machine, {where_dom0_is}. A cell of \
             Dom0 is measured on its CPU {cpu}, and a load works there; all else that is started keeps off it, if Dom0 \
             has another. A guest has {memory} MiB of those that are free in Xen, and up to 100 MB in {temporary}. No \
             setting of Dom0 or of Xen is changed; domain and programs end with the run, and what `xl` logs stays in \
             /var/log/xen.",
            release = self.host.release,
            version = xen.map_or("?", |xen| &xen.version),
            scheduler = xen.map_or("?", |xen| &xen.scheduler),
            memory = XenDomain::MEMORY_MIB,
            temporary = std::env::temp_dir().display()
        )
    }
}

impl Xen {
    /// The one below, and where this CPU of Dom0 may be.
    fn read(cpu: u32) -> Result<Xen> {
        let info = xl::said(&["info"])?;
        let vcpus = xl::said(&["vcpu-list", "0"])?;
        Ok(Xen::of(&info, &vcpus, cpu))
    }

    fn of(info: &str, vcpus: &str, cpu: u32) -> Xen {
        let value = |key: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(name, _)| name.trim() == key);
            found.map_or("", |(_, value)| value.trim()).to_owned()
        };
        Xen {
            version: value("xen_version"),
            scheduler: value("xen_scheduler"),
            free_mib: value("free_memory").parse().unwrap_or(0),
            affinity: affinity(vcpus, cpu).unwrap_or("all").to_owned(),
        }
    }
}

/// Of lines such as `Domain-0 0 3 3 r-- 13.2 3 / all`: name, domain, vCPU, CPU, state, seconds, and where it has
/// to be and had better be.
fn affinity(vcpus: &str, cpu: u32) -> Option<&str> {
    let cpu = cpu.to_string();
    vcpus.lines().find_map(|line| {
        let (before, _) = line.rsplit_once(" / ")?;
        let words: Vec<&str> = before.split_whitespace().collect();
        match words[..] {
            [_, "0", vcpu, .., hard] if vcpu == cpu => Some(hard),
            _ => None,
        }
    })
}

fn lack() -> Option<String> {
    let capabilities = fs::read_to_string(CAPABILITIES).unwrap_or_default();
    let what = if !is_on_xen() {
        "this kernel does not run on Xen: boot Xen and this kernel as its Dom0 (package xen-system-amd64), or run the \
         cells in emulation (`--accel tcg`)"
    } else if !capabilities.contains("control_d") {
        "this is a guest of Xen, and not its Dom0, which alone creates guests: run it there (if this is Dom0, `mount -t \
         xenfs xenfs /proc/xen`)"
    } else if !is_root() {
        "Xen takes commands from root alone: run it as root"
    } else if !runs(CONSOLES) {
        "xenconsoled does not run, by which a guest brings out what it has measured: `systemctl start xen`"
    } else {
        return None;
    };
    Some(what.to_owned())
}

/// Whether a program of this name does.
fn runs(name: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut names = processes.map(|it| fs::read_to_string(it.path().join("comm")));
    names.any(|it| it.is_ok_and(|it| it.trim() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xen_is_what_xl_says_of_it() {
        let info = "host                   : dom0\nnr_cpus                : 4\nfree_memory            : 913\n\
                    xen_version            : 4.17.5\nxen_scheduler          : credit2\n";
        let vcpus = "Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n\
                     Domain-0                             0     0    0   r--      13.2  all / all\n\
                     Domain-0                             0     3    3   -b-       2.0  3 / all\n";
        let xen = |cpu| Xen::of(info, vcpus, cpu);
        let bound = Xen {
            version: "4.17.5".to_owned(),
            scheduler: "credit2".to_owned(),
            free_mib: 913,
            affinity: "3".to_owned(),
        };
        assert_eq!(xen(3), bound);
        assert_eq!(xen(0).affinity, "all");
    }
}
