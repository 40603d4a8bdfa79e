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
    /// Who says what is good: the authority and, where authorities differ, their setting.
    pub says: Vec<String>,
    /// The first Linux that it is true of; `None` is any.
    #[serde(default)]
    pub since: Option<String>,
    /// The first Linux that it is not true of any more; `None` is none.
    #[serde(default)]
    pub before: Option<String>,
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

/// Where a fact is read. Paths have no `/` before them, and `*` in one is a name: each file of such a name is an
/// *instance*. `{cpu}` is each CPU in question, and the name before or behind it belongs to the instance.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Look {
    /// The file's only line is one of these.
    Value {
        /// Which file.
        file: String,
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
    /// The number in the file is no less.
    Number {
        /// Which file.
        file: String,
        /// What is good.
        at_least: f64,
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
        /// How CPUs are written there.
        #[serde(default)]
        format: CpuFormat,
        /// A folder, in which each folder's name is one of the instance's.
        #[serde(default)]
        name: Option<String>,
    },
    /// The kernel's command line has this word.
    Parameter {
        /// Which.
        word: String,
    },
    /// It has not.
    NoParameter {
        /// Which.
        word: String,
    },
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
    /// by this name (`*` any characters, `{instance}` that of the instance),
    pub who: String,
    /// but none of these.
    #[serde(default)]
    pub but: Vec<String>,
}

/// What to do. `{instance}` is which it is of several, `{cpus}` the CPUs in question, `{others}` all others
/// (`{others_mask}` as a mask).
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
    /// Whether it gives up a protection: a script has it as a comment.
    #[serde(default)]
    pub gives_up_protection: bool,
    /// What the kernel's command line has to be, for the next start.
    #[serde(default)]
    pub reboot: Option<String>,
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
