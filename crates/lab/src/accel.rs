//! Environment in which cells run.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Environment in which cells run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Accel {
    /// Emulation, on any machine.
    Tcg,
    /// This machine's own kernel and KVM, in real time.
    Kvm,
    /// This Dom0, with its own kernel and Xen, in real time.
    Xen,
}

impl Accel {
    /// Returns whether time was real and not emulated.
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
