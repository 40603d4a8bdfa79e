//! Describes the running Xen from the output of `xl`: its version, its scheduler, and the physical
//! CPUs that Dom0 may use.

use serde::{Deserialize, Serialize};

/// The running Xen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xen {
    /// Version of Xen, such as `4.17.5`.
    pub version: String,
    /// Name of Xen's scheduler.
    pub scheduler: String,
    /// Physical CPUs of the machine.
    pub cpus: Vec<u32>,
    /// For each vCPU of Dom0: the physical CPUs on which it may run, in the format of `xl`: `2`,
    /// `0-1,3` or `all`.
    pub dom0: Vec<String>,
}

impl Xen {
    /// Parses the output of `xl info -n` and `xl vcpu-list 0`.
    pub fn of(info: &str, vcpus: &str) -> Xen {
        Xen {
            version: value(info, "xen_version").unwrap_or_default().to_owned(),
            scheduler: value(info, "xen_scheduler").unwrap_or_default().to_owned(),
            cpus: cpus(info),
            dom0: affinities(vcpus),
        }
    }

    /// Returns the physical CPU for a guest's vCPU: the last one on which Dom0 never runs. If the
    /// machine has one CPU, returns this CPU, which Dom0 uses too. `None` if no CPU is free.
    pub fn guest_cpu(&self) -> Option<u32> {
        if let [only] = self.cpus[..] {
            return Some(only);
        }
        let is_free = |cpu: u32| !self.dom0.iter().any(|list| has(list, cpu));
        let mut cpus = self.cpus.iter().copied();
        cpus.rfind(|cpu| is_free(*cpu))
    }

    /// Describes Xen in words.
    pub fn words(&self) -> String {
        format!(
            "Xen {} ({}; Dom0's CPUs may run on {} of {})",
            self.version,
            self.scheduler,
            self.dom0.join(" and "),
            self.cpus.len()
        )
    }

    /// Returns whether the machine has one CPU, which a guest shares with Dom0.
    pub fn has_one_cpu(&self) -> bool {
        self.cpus.len() == 1
    }
}

/// Returns the memory that no domain uses, in MiB; `None` if `xl info` does not report it.
pub fn free_mib(info: &str) -> Option<u32> {
    value(info, "free_memory")?.parse().ok()
}

fn value<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.trim() == key)?;
    Some(value.trim())
}

/// Returns the physical CPUs that are online. If all are online, their number is enough. Otherwise
/// the CPUs are the lines below `cpu_topology` and a title, such as ` 3:  1  0  0`. A CPU without
/// known cores has no line.
fn cpus(info: &str) -> Vec<u32> {
    let number = |key| value(info, key)?.parse::<u32>().ok();
    match (number("nr_cpus"), number("max_cpu_id")) {
        (Some(on), Some(last)) if on.checked_sub(1) == Some(last) => (0..on).collect(),
        _ => {
            let lines = info.lines();
            let lines = lines.skip_while(|line| !line.starts_with("cpu_topology"));
            let cpu = |line: &str| line.split_once(':')?.0.trim().parse().ok();
            lines.skip(2).map_while(cpu).collect()
        }
    }
}

/// Returns the hard affinity of each vCPU. The lines are like `Domain-0 0 3 3 r-- 13.2 3 / all`:
/// name, domain, vCPU, CPU, state, seconds, hard affinity, soft affinity.
fn affinities(vcpus: &str) -> Vec<String> {
    let affinity = |line: &str| {
        let (before, _) = line.rsplit_once(" / ")?;
        let words: Vec<&str> = before.split_whitespace().collect();
        match words[..] {
            [_, "0", _, .., hard] => Some(hard.to_owned()),
            _ => None,
        }
    };
    vcpus.lines().filter_map(affinity).collect()
}

/// Returns whether a list of CPUs contains `cpu`. An unknown text is assumed to contain every CPU.
fn has(list: &str, cpu: u32) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&cpu),
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: &str = "Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n";

    fn info(cpus: &[u32]) -> String {
        let cpu = |cpu: &u32| format!("{cpu:3}:       0        0        0\n");
        info_with(cpus, &cpus.iter().map(cpu).collect::<String>())
    }

    /// Returns the output of `xl info -n` of Xen 4.17 with these CPUs.
    fn info_with(cpus: &[u32], topology: &str) -> String {
        format!(
            "host                   : dom0\nnr_cpus                : {}\nmax_cpu_id             : {}\n\
             free_memory            : 913\ncpu_topology           :\ncpu:    core    socket     node\n{topology}\
             device topology        :\ndevice           node\nNo device topology data available\n\
             numa_info              :\nnode:    memsize    memfree    distances\n   0:      2048        913      10\n\
             xen_version            : 4.17.5\nxen_scheduler          : credit2\n",
            cpus.len(),
            cpus.last().unwrap_or(&0)
        )
    }

    /// Returns a Xen with these physical CPUs. Each vCPU of Dom0 may run on one of the lists in
    /// `dom0`.
    fn xen(cpus: &[u32], dom0: &[&str]) -> Xen {
        let vcpu = |(number, list): (usize, &&str)| {
            format!(
                "Domain-0                             0 {number:5}     0   r--      13.2  {list} / all\n"
            )
        };
        let vcpus: String = dom0.iter().enumerate().map(vcpu).collect();
        Xen::of(&info(cpus), &format!("{TITLES}{vcpus}"))
    }

    #[test]
    fn xen_is_what_xl_says_of_it() {
        let expected = Xen {
            version: "4.17.5".to_owned(),
            scheduler: "credit2".to_owned(),
            cpus: vec![0, 2],
            dom0: vec!["all".to_owned(), "0".to_owned()],
        };
        assert_eq!(xen(&[0, 2], &["all", "0"]), expected);
        assert_eq!(free_mib(&info(&[0])), Some(913));
        assert_eq!(free_mib("free_memory            : ?\n"), None);
    }

    #[test]
    fn cpus_are_known_without_their_cores_if_all_are_on() {
        assert_eq!(Xen::of(&info_with(&[0], ""), "").cpus, [0]);
        assert_eq!(Xen::of(&info_with(&[0, 1], ""), "").cpus, [0, 1]);
        assert_eq!(Xen::of(&info(&[0, 2, 4]), "").cpus, [0, 2, 4]);
        assert!(Xen::of(&info_with(&[0, 2], ""), "").cpus.is_empty());
    }

    #[test]
    fn a_guest_has_a_cpu_that_dom0_never_runs_on() {
        let four = [0, 1, 2, 3];
        assert_eq!(xen(&four, &["0"]).guest_cpu(), Some(3));
        assert_eq!(xen(&four, &["0", "2-3"]).guest_cpu(), Some(1));
        assert_eq!(xen(&four, &["0,2-3"]).guest_cpu(), Some(1));
        for bound_nowhere in [&["all"][..], &["0", "all"], &["0", "1", "2", "3"], &["?"]] {
            assert_eq!(xen(&four, bound_nowhere).guest_cpu(), None);
        }
    }

    #[test]
    fn on_a_machine_of_one_cpu_all_share_it() {
        let one = xen(&[0], &["all"]);
        assert!(one.has_one_cpu());
        assert_eq!(one.guest_cpu(), Some(0));
        assert!(!xen(&[0, 1], &["all"]).has_one_cpu());
    }
}
