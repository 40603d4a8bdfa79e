//! Format of a rule file.

use std::collections::BTreeMap;

use serde::Deserialize;
use vmnoise_events::Share;

/// Rule about one setting of a machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRule {
    /// Name of the rule's file.
    #[serde(skip)]
    pub id: String,
    /// Description of the fault.
    pub title: String,
    /// Role of the machines to which the rule applies: only hosts of VMs, or only guests. `None`
    /// for all.
    #[serde(default)]
    pub of: Option<MachineSide>,
    /// Sources for the good value. A source names its author, and the recommended value if the
    /// sources disagree.
    pub says: Vec<String>,
    /// First version of Linux to which the rule applies; `None` for no limit.
    #[serde(default)]
    pub since: Option<String>,
    /// First version of Linux to which the rule no longer applies; `None` for no limit.
    #[serde(default)]
    pub before: Option<String>,
    /// Further conditions. The rule applies only to files or threads for which all of them hold.
    #[serde(default)]
    pub only: Vec<Only>,
    /// Warning before any change; may be empty.
    #[serde(default)]
    pub note: String,
    /// Where to read the setting, and its good values.
    pub look: FactSource,
    /// Culprits whose time the setting explains.
    #[serde(default)]
    pub explains: Vec<Signature>,
    /// Remedy for a bad setting.
    pub remedy: Remedy,
    /// Trees of files for the tests of the rule.
    pub trees: Trees,
}

/// Role of a machine with respect to VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineSide {
    /// The machine runs VMs.
    Host,
    /// The machine is a VM.
    Guest,
}

/// Further condition for a file or thread to which a rule applies. The condition holds if `is`,
/// `above` or `lacks` holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// File to read. `{folder}` stands for the folder of the file to which the rule applies.
    pub file: String,
    /// First version of Linux on which the condition is checked. On older versions the condition
    /// counts as true.
    #[serde(default)]
    pub since: Option<String>,
    /// Texts, of which the file's text must be one (`*` stands for any characters). Empty if the
    /// text is not compared.
    #[serde(default)]
    pub is: Vec<String>,
    /// Number above which the file's number must be; `None` if the number is not compared.
    #[serde(default)]
    pub above: Option<f64>,
    /// Words, of which at least one must be missing in the file's text. Empty if no words are
    /// searched.
    #[serde(default)]
    pub lacks: Vec<String>,
}

/// Where to read a setting. Paths have no leading `/`, and may contain placeholders:
///
/// - `*` stands for any name. Each matching file is a separate *instance*.
/// - `{cpu}` stands for each selected CPU. The word before or after it is part of the instance.
/// - `{vm}` stands for the process of each VM on this machine.
/// - `{vm_cgroup}` stands for each control group of the VM's threads, and for each parent group.
///   `{own_cgroup}` stands for the same groups of vmnoise itself.
/// - `{vm_cpu_cgroup}` and `{own_cpu_cgroup}` stand for the same groups in the hierarchy of version
///   1 for CPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FactSource {
    /// The text of the file must be one of the good values (`*` stands for any characters).
    Value {
        /// File to read.
        file: String,
        /// Key of the line `key: value`; `None` for the whole text.
        #[serde(default)]
        key: Option<String>,
        /// Good values.
        good: Vec<String>,
    },
    /// The text in brackets in the file must be one of the good values.
    Choice {
        /// File to read.
        file: String,
        /// Good values.
        good: Vec<String>,
    },
    /// The number in the file must be from `at_least` to `at_most`.
    Number {
        /// File to read.
        file: String,
        /// Smallest good number; `None` without a lower limit.
        #[serde(default)]
        at_least: Option<f64>,
        /// Largest good number; `None` without an upper limit.
        #[serde(default)]
        at_most: Option<f64>,
    },
    /// The list of CPUs in the file must contain all selected CPUs.
    Covers {
        /// File to read.
        file: String,
    },
    /// The list of CPUs in the file must contain no selected CPU.
    Spares {
        /// File to read.
        file: String,
        /// Key of the line `key: value`; `None` for the whole text.
        #[serde(default)]
        key: Option<String>,
        /// Format of the CPUs in the file.
        #[serde(default)]
        format: CpuFormat,
        /// Folder whose subfolders' names describe the instance; `None` without such a folder.
        #[serde(default)]
        name: Option<String>,
    },
    /// At least one CPU must be in none of these lists.
    Leaves {
        /// Files to read.
        files: Vec<String>,
    },
    /// The kernel's command line, or another file, must contain one of these words (`*` stands for
    /// any characters).
    Parameter {
        /// Words, of which one must occur.
        words: Vec<String>,
        /// File to read.
        #[serde(default = "command_line")]
        file: String,
    },
    /// The kernel's command line must not contain this word.
    NoParameter {
        /// The word that must not occur.
        word: String,
    },
    /// One of these kernel parameters must list all selected CPUs.
    ParameterCovers {
        /// Names of the parameters.
        words: Vec<String>,
    },
    /// No current thread of this kind may have the fault.
    Threads {
        /// Kind of the threads to check.
        whose: Whose,
        /// Names of the threads to check (`*` stands for any characters). Empty for any name.
        #[serde(default)]
        names: Vec<String>,
        /// Names of threads that are not checked.
        #[serde(default)]
        but: Vec<String>,
        /// Fault for which the threads are checked.
        fault: ThreadFault,
    },
    /// No current process may have the name `name`.
    NoProcess {
        /// Name of the process.
        name: String,
    },
    /// The rule finds a fault if all of this holds for a guest and its host (rules in the folder
    /// `joint`).
    Joint {
        /// Conditions on the guest; all of them must hold.
        #[serde(default)]
        guest: Vec<SideCondition>,
        /// Conditions on the host, for the CPUs on which the guest's vCPUs ran.
        #[serde(default)]
        host: Vec<SideCondition>,
        /// Whether a vCPU of the guest must have run on several CPUs of the host.
        #[serde(default)]
        moved: bool,
        /// Ways in which the host must have taken time from the guest. Empty if the rule does not
        /// require this.
        #[serde(default)]
        seen: Vec<Signature>,
    },
}

/// Condition on a guest, or on its host.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideCondition {
    /// State that the setting must have on this machine alone.
    pub is: Is,
    /// Where to read the setting, and its good values.
    pub look: FactSource,
}

/// State of a setting on one machine of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// The setting is good.
    Good,
    /// The setting is bad.
    Bad,
}

/// Kind of threads to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// vCPUs of VMs that may run on the selected CPUs.
    Vcpus,
    /// Other threads of VMs whose vCPUs may run on the selected CPUs.
    Vmm,
    /// All threads of VMs whose vCPUs may run on the selected CPUs, including the vCPUs.
    Vm,
    /// Kernel threads that may run on the selected CPUs.
    Kernel,
    /// All other threads that may run on the selected CPUs.
    Users,
}

/// Fault of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadFault {
    /// The thread may run on a selected CPU, and could be moved to other CPUs.
    OnCpus,
    /// The thread may run on more than one CPU.
    Unpinned,
    /// The vCPUs that may run only on this thread's CPUs outnumber these CPUs.
    Crowded,
    /// A real-time vCPU of the same VM has a higher priority than the thread.
    BelowVcpus,
    /// The thread gets less CPU time than an ordinary thread.
    Weak,
    /// The thread runs only if no other thread needs the CPU.
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

/// Format of a set of CPUs in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuFormat {
    /// List of ranges: `1,3-5`.
    #[default]
    List,
    /// Hexadecimal words of 32 bits, the highest first: `ff,00000000`.
    Mask,
}

/// Pattern that selects the time of culprits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Shares in which the time is counted.
    pub shares: Vec<Share>,
    /// Pattern for the culprit's name. `*` stands for any characters, `{instance}` for the
    /// instance, and `{name}` for the instance's other name.
    pub who: String,
    /// Patterns for names that are excluded.
    #[serde(default)]
    pub but: Vec<String>,
    /// Required scheduling of the measured threads; `None` for any.
    #[serde(default)]
    pub ran: Option<Ran>,
}

/// Remedy for a bad setting. Its texts may contain placeholders:
///
/// - `{instance}` is the instance, and `{file}` is the file that was read.
/// - `{cpus}` are the selected CPUs, and `{others}` are all other CPUs (`{others_mask}` as a mask).
/// - For a thread, `{was_cpus}` are the CPUs on which it may run, `{was_nice}` is its nice value,
///   and `{was_chrt}` are the options of chrt(1) for its policy.
/// - `{vcpu_chrt}` are the options of chrt(1) for the vCPU with the highest priority of the
///   thread's VM.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// File whose change helps at once; `None` if no such file is known.
    #[serde(default)]
    pub write: Option<String>,
    /// Text to write to this file.
    #[serde(default)]
    pub to: String,
    /// Text that restores the earlier state. `{was}` stands for the file's current text.
    #[serde(default = "as_it_was")]
    pub was: String,
    /// Command that helps at once; `None` if no command is known.
    #[serde(default)]
    pub run: Option<String>,
    /// Command that restores the earlier state.
    #[serde(default)]
    pub undo: String,
    /// Whether the remedy removes a protection. Scripts then contain the remedy only as a comment.
    #[serde(default)]
    pub gives_up_protection: bool,
    /// Change for the next start of the kernel or the VM: words for the kernel's command line, or
    /// another setting. `None` if there is none.
    #[serde(default)]
    pub reboot: Option<String>,
    /// Advice that needs knowledge beyond the machine's files; `None` if there is none.
    #[serde(default)]
    pub advice: Option<String>,
}

fn command_line() -> String {
    "proc/cmdline".into()
}

fn as_it_was() -> String {
    "{was}".into()
}

/// Text of each file, by the file's path.
pub type FileTree = BTreeMap<String, String>;

/// Two machines: one without the fault, and one with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trees {
    /// Files of a machine without a finding.
    pub good: FileTree,
    /// Files of a machine with a finding.
    pub bad: FileTree,
}
