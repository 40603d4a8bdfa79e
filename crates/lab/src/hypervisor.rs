//! The Xen below a Dom0, as `xl` tells of it: which one it is, and which CPUs of the machine Dom0 may run on.

use serde::{Deserialize, Serialize};

/// A Xen that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xen {
    /// `4.17.5`.
    pub version: String,
    /// By which it chooses who runs.
    pub scheduler: String,
    /// The CPUs of the machine.
    pub cpus: Vec<u32>,
    /// For each vCPU of Dom0 the CPUs of the machine that it may run on, as `xl` writes them: `2`, `0-1,3` or `all`.
    pub dom0: Vec<String>,
}

impl Xen {
    /// Out of what `xl info -n` and `xl vcpu-list 0` print.
    pub fn of(info: &str, vcpus: &str) -> Xen {
        Xen {
            version: value(info, "xen_version").unwrap_or_default().to_owned(),
            scheduler: value(info, "xen_scheduler").unwrap_or_default().to_owned(),
            cpus: cpus(info),
            dom0: affinities(vcpus),
        }
    }

    /// The CPU of the machine for the vCPU of a guest: the last one that Dom0 never runs on. A machine of one CPU has
    /// no choice, and all share that one.
    pub fn guest_cpu(&self) -> Option<u32> {
        if let [only] = self.cpus[..] {
            return Some(only);
        }
        let is_free = |cpu: u32| !self.dom0.iter().any(|list| has(list, cpu));
        let mut cpus = self.cpus.iter().copied();
        cpus.rfind(|cpu| is_free(*cpu))
    }

    /// In words.
    pub fn words(&self) -> String {
        format!(
            "Xen {} ({}; Dom0's CPUs may run on {} of {})",
            self.version,
            self.scheduler,
            self.dom0.join(" and "),
            self.cpus.len()
        )
    }

    /// Whether a guest shares its CPU with Dom0, for there is no other.
    pub fn has_one_cpu(&self) -> bool {
        self.cpus.len() == 1
    }
}

/// How much memory no domain has, MiB, if `xl info` tells.
pub fn free_mib(info: &str) -> Option<u32> {
    value(info, "free_memory")?.parse().ok()
}

fn value<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.trim() == key)?;
    Some(value.trim())
}

/// As many as there are, if all are on. If not, those of the table below `cpu_topology` and a line of titles, which has a
/// line for each that is on, ` 3:  1  0  0`, but none at all where the CPU tells nothing of its cores.
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

/// Of lines such as `Domain-0 0 3 3 r-- 13.2 3 / all`: name, domain, vCPU, CPU, state, seconds, and where it has to be
/// and had better be.
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

/// Whether a list of CPUs has this one. What is no list may be any.
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

    /// As Xen 4.17 has it.
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

    /// With so many CPUs, and a Dom0 whose vCPUs may have these.
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
