//! Rights of a thread according to /proc, and according to docs/security.md.

use std::fs;
use std::path::Path;

/// Bits of capabilities(7).
const BITS: [(&str, u8); 7] = [
    ("CAP_CHOWN", 0),
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_FOWNER", 3),
    ("CAP_KILL", 5),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
];

/// Contents of /proc/PID/task/TID/status.
#[derive(Debug)]
pub struct ThreadStatus(Vec<(String, String)>);

impl ThreadStatus {
    pub fn of(text: &str) -> ThreadStatus {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let lines = lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        ThreadStatus(lines.collect())
    }

    pub fn text(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let words = self.text(name).split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    }

    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    pub fn bits(&self, name: &str) -> u64 {
        u64::from_str_radix(self.text(name), 16).unwrap()
    }

    pub fn name(&self) -> &str {
        self.text("Name")
    }

    pub fn is_first(&self) -> bool {
        self.text("Pid") == self.text("Tgid")
    }
}

/// Returns the threads of a process, without those that end meanwhile. Threads of the kernel are
/// left out too: KVM adds one to the process of a VMM (`kvm-nx-lpage-recovery`), and no code of
/// vmnoise runs in it.
pub fn threads(pid: u32) -> Vec<ThreadStatus> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks
        .into_iter()
        .flatten()
        .flatten()
        .map(|task| task.path());
    let ours = tasks.filter(|task| !is_of_the_kernel(task));
    let texts = ours.filter_map(|task| fs::read_to_string(task.join("status")).ok());
    texts.map(|text| ThreadStatus::of(&text)).collect()
}

/// Returns whether a thread is the kernel's, by its flags (field 9 of proc_pid_stat(5)).
fn is_of_the_kernel(task: &Path) -> bool {
    /// From include/linux/sched.h.
    const PF_USER_WORKER: u64 = 0x4000;
    let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let flags = after_name
        .split(' ')
        .nth(6)
        .and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_USER_WORKER != 0)
}

/// Returns the capabilities that are kept according to these rows of the document.
pub fn kept(works: &[&str]) -> u64 {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [work, name, _, "yes"] = cells[..] else {
            return None;
        };
        works.contains(&work).then(|| {
            let found = BITS.iter().find(|(known, _)| *known == name);
            1 << found.unwrap_or_else(|| panic!("{name} has no bit")).1
        })
    });
    rows.fold(0, |all, bit: u64| all | bit)
}
