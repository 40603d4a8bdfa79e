//! On what cells are run.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// On what cells are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Accel {
    /// In emulation, on any machine.
    Tcg,
    /// On this machine's own kernel and KVM, in real time.
    Kvm,
    /// In this Dom0, with its own kernel and Xen, in real time.
    Xen,
}

impl Accel {
    /// Whether time was that of a machine, and not of an emulated one.
    pub fn is_real(self) -> bool {
        self != Accel::Tcg
    }
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accel::Tcg => "tcg",
            Accel::Kvm => "kvm",
            Accel::Xen => "xen",
        })
    }
}
