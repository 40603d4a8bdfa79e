//! The format of a rule file.

use std::collections::BTreeMap;

use serde::Deserialize;
use vmnoise_events::Share;

/// A rule about one setting of a machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRule {
    /// Name of its file.
    #[serde(skip)]
    pub id: String,
    /// The fault, if it is not good.
    pub title: String,
    /// The side to which the rule applies: only a host of VMs, or only a guest.
    #[serde(default)]
    pub of: Option<MachineSide>,
    /// Sources for the good value: the authority and, if authorities differ, their settings.
    pub says: Vec<String>,
    /// The first Linux to which it applies; `None`: any.
    #[serde(default)]
    pub since: Option<String>,
    /// The first Linux to which it no longer applies; `None`: no limit.
    #[serde(default)]
    pub before: Option<String>,
    /// Conditions: the rule applies only to places where all of them are true.
    #[serde(default)]
    pub only: Vec<Only>,
    /// A warning before any change; may be empty.
    #[serde(default)]
    pub note: String,
    /// Where it is read, and the good values.
    pub look: FactSource,
    /// The time that the setting causes.
    #[serde(default)]
    pub explains: Vec<Signature>,
    /// The remedy.
    pub remedy: Remedy,
    /// Trees of files by which the rule is tested.
    pub trees: Trees,
}

/// The role of a machine for VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineSide {
    /// It runs VMs.
    Host,
    /// It is a VM.
    Guest,
}

/// An additional condition.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// The file. `{folder}` is the folder of the place.
    pub file: String,
    /// The first Linux that is checked. With an older one, the place counts.
    #[serde(default)]
    pub since: Option<String>,
    /// The file's text must be one of these (`*`: any characters),
    #[serde(default)]
    pub is: Vec<String>,
    /// or a number above this one,
    #[serde(default)]
    pub above: Option<f64>,
    /// or at least one of these must be missing from it.
    #[serde(default)]
    pub lacks: Vec<String>,
}

/// Where a setting is read. Paths have no leading `/`.
///
/// - `*` is a name. Each file with such a name is an *instance*.
/// - `{cpu}` is each CPU in question. The name before or after it belongs to the instance.
/// - `{vm}` is the process of each VM on this machine.
/// - `{vm_cgroup}` is each control group of its threads, and each group above these. `{own_cgroup}`
///   is the same for this process.
/// - `{vm_cpu_cgroup}` and `{own_cpu_cgroup}` are the same in the first version's hierarchy for
///   CPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FactSource {
    /// The file's only line must be one of these (`*`: any characters).
    Value {
        /// The file.
        file: String,
        /// Key of the line `key: value`, if there are several lines.
        #[serde(default)]
        key: Option<String>,
        /// The good values.
        good: Vec<String>,
    },
    /// The text in brackets in the file must be one of these.
    Choice {
        /// The file.
        file: String,
        /// The good values.
        good: Vec<String>,
    },
    /// The number in the file must be within these bounds.
    Number {
        /// The file.
        file: String,
        /// The least good value.
        #[serde(default)]
        at_least: Option<f64>,
        /// The largest good value.
        #[serde(default)]
        at_most: Option<f64>,
    },
    /// The list of CPUs in the file must contain all CPUs in question.
    Covers {
        /// The file.
        file: String,
    },
    /// The list of CPUs in the file must contain none of the CPUs in question.
    Spares {
        /// The file.
        file: String,
        /// Key of the line `key: value`, if there are several lines.
        #[serde(default)]
        key: Option<String>,
        /// Format of the CPUs in the file.
        #[serde(default)]
        format: CpuFormat,
        /// A folder in which each folder's name is a name of the instance.
        #[serde(default)]
        name: Option<String>,
    },
    /// At least one CPU must be in none of these lists.
    Leaves {
        /// The files.
        files: Vec<String>,
    },
    /// The kernel's command line, or another file, must have one of these words (`*`: any
    /// characters).
    Parameter {
        /// The words.
        words: Vec<String>,
        /// The file.
        #[serde(default = "command_line")]
        file: String,
    },
    /// The kernel's command line must not have this word.
    NoParameter {
        /// The word.
        word: String,
    },
    /// One of these parameters of the kernel must list all CPUs in question.
    ParameterCovers {
        /// The parameters.
        words: Vec<String>,
    },
    /// Current threads: none of them may have the fault.
    Threads {
        /// Owner of the threads.
        whose: Whose,
        /// Only threads with these names (`*`: any characters). Empty: any name.
        #[serde(default)]
        names: Vec<String>,
        /// Except threads with these names.
        #[serde(default)]
        but: Vec<String>,
        /// The fault.
        fault: ThreadFault,
    },
    /// No current process may have this name.
    NoProcess {
        /// The name.
        name: String,
    },
    /// A fault if all of this is true for a guest and its host (the files in `joint`).
    Joint {
        /// Conditions on the guest.
        #[serde(default)]
        guest: Vec<SideCondition>,
        /// Conditions on its host, on the CPUs on which its vCPUs were.
        #[serde(default)]
        host: Vec<SideCondition>,
        /// Requires that a vCPU of the guest was seen on several CPUs of the host.
        #[serde(default)]
        moved: bool,
        /// Requires that the host took time of the guest in one of these ways.
        #[serde(default)]
        seen: Vec<Signature>,
    },
}

/// A condition on one side.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideCondition {
    /// State of this side alone.
    pub is: Is,
    /// Where it is read, and the good values.
    pub look: FactSource,
}

/// State of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// Good.
    Good,
    /// Not good.
    Bad,
}

/// Owner of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The vCPUs of VMs that may run on the CPUs in question.
    Vcpus,
    /// All other threads of these VMs.
    Vmm,
    /// Both.
    Vm,
    /// The kernel's own threads that may run on the CPUs in question.
    Kernel,
    /// All other threads that may run on these CPUs.
    Users,
}

/// A fault of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadFault {
    /// The thread may run on a checked CPU, and could be moved away.
    OnCpus,
    /// The thread may run on more than one CPU.
    Unpinned,
    /// There are more vCPUs than CPUs on which these may run.
    Crowded,
    /// A real-time vCPU of the same VM runs before the thread.
    BelowVcpus,
    /// The thread gets less CPU time than an ordinary thread.
    Weak,
    /// The thread runs only if no other thread wants the CPU.
    Idle,
    /// The thread gets more CPU time than an ordinary thread, and is not real-time.
    Strong,
    /// The thread is not real-time.
    Ordinary,
}

/// How the measured threads were scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// As real-time threads.
    RealTime,
    /// As ordinary threads.
    Ordinary,
}

/// Format of CPUs in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuFormat {
    /// `1,3-5`
    #[default]
    List,
    /// `ff,00000000`: bits, the highest first
    Mask,
}

/// Pattern for the time of culprits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Time in these shares,
    pub shares: Vec<Share>,
    /// with this name (`*`: any characters, `{instance}`: the instance, `{name}`: its other name),
    pub who: String,
    /// except these names,
    #[serde(default)]
    pub but: Vec<String>,
    /// and only if the measured threads were scheduled so.
    #[serde(default)]
    pub ran: Option<Ran>,
}

/// The remedy. Its texts have placeholders:
///
/// - `{instance}` is the instance, `{file}` is the file that was read.
/// - `{cpus}` are the CPUs in question, `{others}` are all others (`{others_mask}` as a mask).
/// - For a thread, `{was_cpus}` are the CPUs on which it may run, `{was_nice}` is its nice value,
///   and `{was_chrt}` are the options of chrt(1) for its policy.
/// - `{vcpu_chrt}` are these options for the vCPU of its VM that runs first.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// The file whose change helps at once; `None` if only a restart of the kernel helps.
    #[serde(default)]
    pub write: Option<String>,
    /// The text to write to it.
    #[serde(default)]
    pub to: String,
    /// The text that restores the earlier state. `{was}` is the current text of the file.
    #[serde(default = "as_it_was")]
    pub was: String,
    /// The command that helps at once.
    #[serde(default)]
    pub run: Option<String>,
    /// The command that restores the earlier state.
    #[serde(default)]
    pub undo: String,
    /// Whether the remedy gives up a protection. A script then has it as a comment.
    #[serde(default)]
    pub gives_up_protection: bool,
    /// Change for the next start, of the kernel or of the VM: words of its command line, or another
    /// setting.
    #[serde(default)]
    pub reboot: Option<String>,
    /// Advice for a person who knows more than files show.
    #[serde(default)]
    pub advice: Option<String>,
}

fn command_line() -> String {
    "proc/cmdline".into()
}

fn as_it_was() -> String {
    "{was}".into()
}

/// Files and their texts.
pub type FileTree = BTreeMap<String, String>;

/// A machine without the fault, and a machine with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trees {
    /// Files without a finding.
    pub good: FileTree,
    /// Files with a finding.
    pub bad: FileTree,
}
