//! What a rule file holds.

use std::collections::BTreeMap;

use serde::Deserialize;
use vmnoise_events::Share;

/// One fact of a machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The name of its file.
    #[serde(skip)]
    pub id: String,
    /// What is so where it is not good.
    pub title: String,
    /// Whether it is of a host of VMs alone, or of a guest alone.
    #[serde(default)]
    pub of: Option<Side>,
    /// Who says what is good: the authority and, where authorities differ, their setting.
    pub says: Vec<String>,
    /// The first Linux that it is true of; `None` is any.
    #[serde(default)]
    pub since: Option<String>,
    /// The first Linux that it is not true of any more; `None` is none.
    #[serde(default)]
    pub before: Option<String>,
    /// It is of those places alone where all of this is so.
    #[serde(default)]
    pub only: Vec<Only>,
    /// What is to be known before anything is changed; empty where nothing is.
    #[serde(default)]
    pub note: String,
    /// Where it is read, and what is good there.
    pub look: Look,
    /// Whose time comes by it.
    #[serde(default)]
    pub explains: Vec<Signature>,
    /// What to do.
    pub remedy: Remedy,
    /// Trees of files by which the rule is tested.
    pub trees: Trees,
}

/// What a machine is to VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It runs some.
    Host,
    /// It is one.
    Guest,
}

/// What else has to be so.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// Which file; `{folder}` is that in which the place is.
    pub file: String,
    /// From this Linux on alone; with an older one the place counts.
    #[serde(default)]
    pub since: Option<String>,
    /// What is in it is one of these (`*` any characters),
    #[serde(default)]
    pub is: Vec<String>,
    /// or a number above this one,
    #[serde(default)]
    pub above: Option<f64>,
    /// or it lacks one of these at least.
    #[serde(default)]
    pub lacks: Vec<String>,
}

/// Where a fact is read. Paths have no `/` before them, and `*` in one is a name: each file of such a name is an
/// *instance*. `{cpu}` is each CPU in question, and the name before or behind it belongs to the instance. `{vm}` is
/// the process of each VM on this machine, `{vm_cgroup}` each control group that its threads are in, or that holds
/// one of these; `{own_cgroup}` is the same of this process. `{vm_cpu_cgroup}` and
/// `{own_cpu_cgroup}` are those of the first version's hierarchy for CPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Look {
    /// The file's only line is one of these (`*` any characters).
    Value {
        /// Which file.
        file: String,
        /// The line `key: value` of several.
        #[serde(default)]
        key: Option<String>,
        /// What is good.
        good: Vec<String>,
    },
    /// What stands in brackets in the file is one of these.
    Choice {
        /// Which file.
        file: String,
        /// What is good.
        good: Vec<String>,
    },
    /// The number in the file is no less, and no more.
    Number {
        /// Which file.
        file: String,
        /// What is good.
        #[serde(default)]
        at_least: Option<f64>,
        /// What is good.
        #[serde(default)]
        at_most: Option<f64>,
    },
    /// The list of CPUs in the file holds all CPUs in question.
    Covers {
        /// Which file.
        file: String,
    },
    /// It holds none of them.
    Spares {
        /// Which file.
        file: String,
        /// The line `key: value` of several.
        #[serde(default)]
        key: Option<String>,
        /// How CPUs are written there.
        #[serde(default)]
        format: CpuFormat,
        /// A folder, in which each folder's name is one of the instance's.
        #[serde(default)]
        name: Option<String>,
    },
    /// A CPU is left that is in none of these lists.
    Leaves {
        /// Which files.
        files: Vec<String>,
    },
    /// The kernel's command line, or another file, has one of these words (`*` any characters).
    Parameter {
        /// Which.
        words: Vec<String>,
        /// Which file.
        #[serde(default = "command_line")]
        file: String,
    },
    /// It has not.
    NoParameter {
        /// Which.
        word: String,
    },
    /// One of these parameters of the kernel lists all CPUs in question.
    ParameterCovers {
        /// Which.
        words: Vec<String>,
    },
    /// Threads, as they are now: it is good where none of them has the fault.
    Threads {
        /// Whose.
        whose: Whose,
        /// Those of such a name alone (`*` any characters); any, where it is empty.
        #[serde(default)]
        names: Vec<String>,
        /// But none of these.
        #[serde(default)]
        but: Vec<String>,
        /// What is not good.
        fault: Fault,
    },
    /// No process has this name now.
    NoProcess {
        /// Which.
        name: String,
    },
    /// It is not good where all of this is so of a guest and its host (the files in `joint`).
    Joint {
        /// Of the guest.
        #[serde(default)]
        guest: Vec<Condition>,
        /// Of its host, on the CPUs that its vCPUs were on.
        #[serde(default)]
        host: Vec<Condition>,
        /// A vCPU of the guest was seen on several CPUs of the host.
        #[serde(default)]
        moved: bool,
        /// The host took time of the guest in one of these ways.
        #[serde(default)]
        seen: Vec<Signature>,
    },
}

/// What has to be so on one side.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Whether that side by itself is well.
    pub is: Is,
    /// Where it is read, and what would be good there.
    pub look: Look,
}

/// How it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// Good.
    Good,
    /// Not good.
    Bad,
}

/// Whose threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The vCPUs of VMs that may run on the CPUs in question.
    Vcpus,
    /// All other threads of these VMs.
    Vmm,
    /// Both.
    Vm,
    /// The kernel's own that may run there.
    Kernel,
    /// Everybody else's that may run there.
    Users,
}

/// What is not good of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It may run on a CPU in question, and could be moved away.
    OnCpus,
    /// It may run on more than one CPU.
    Unpinned,
    /// More vCPUs than there are CPUs have to share those that it may run on.
    Crowded,
    /// It is served after a vCPU of its VM that is a real-time one.
    BelowVcpus,
    /// It gets less than an ordinary thread.
    Weak,
    /// It runs only where nobody else wants the CPU.
    Idle,
    /// It gets more than an ordinary thread, and is no real-time one.
    Strong,
    /// It is no real-time one.
    Ordinary,
}

/// How the measured threads were scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// As real-time ones.
    RealTime,
    /// As ordinary ones.
    Ordinary,
}

/// How CPUs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuFormat {
    /// `1,3-5`
    #[default]
    List,
    /// `ff,00000000`: bits, the highest first
    Mask,
}

/// Whose time it is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Under these shares,
    pub shares: Vec<Share>,
    /// by this name (`*` any characters, `{instance}` that of the instance, `{name}` its other name),
    pub who: String,
    /// but none of these,
    #[serde(default)]
    pub but: Vec<String>,
    /// and only where the measured threads were scheduled so.
    #[serde(default)]
    pub ran: Option<Ran>,
}

/// What to do. `{instance}` is which it is of several, `{file}` the file that was read, `{cpus}` the CPUs in
/// question, `{others}` all others (`{others_mask}` as a mask). Of a thread `{was_cpus}` are the CPUs that it may run
/// on, `{was_nice}` is its nice value, and `{was_chrt}` is what chrt(1) takes for its policy; `{vcpu_chrt}` is that of
/// the vCPU of its VM that is served first.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// The file that makes it good at once; `None` where only another start of the kernel does.
    #[serde(default)]
    pub write: Option<String>,
    /// What is to be written to it.
    #[serde(default)]
    pub to: String,
    /// What makes it what it was: `{was}` is what the file holds.
    #[serde(default = "as_it_was")]
    pub was: String,
    /// The command that makes it good at once.
    #[serde(default)]
    pub run: Option<String>,
    /// The command that makes it what it was.
    #[serde(default)]
    pub undo: String,
    /// Whether it gives up a protection: a script has it as a comment.
    #[serde(default)]
    pub gives_up_protection: bool,
    /// For the next start, of the kernel or of the VM: words of its command line, or what else is to be set.
    #[serde(default)]
    pub reboot: Option<String>,
    /// What somebody has to do who knows more than files say.
    #[serde(default)]
    pub advice: Option<String>,
}

fn command_line() -> String {
    "proc/cmdline".into()
}

fn as_it_was() -> String {
    "{was}".into()
}

/// Files with what they hold.
pub type Tree = BTreeMap<String, String>;

/// A machine where all is well, and one where it is not.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trees {
    /// Nothing is found there.
    pub good: Tree,
    /// There it is found.
    pub bad: Tree,
}
