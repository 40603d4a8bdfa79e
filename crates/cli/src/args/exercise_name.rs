//! The exits of `--exercise`, as people name them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vmnoise_workload::microvm::exercise::Exercise;

/// Reads the name of an exit; the help says what each is.
pub fn parser() -> impl TypedValueParser<Value = Exercise> {
    let named = |exercise: Exercise| {
        PossibleValue::new(exercise.name()).help(match exercise {
            Exercise::Cpuid => "CPUID, which KVM answers",
            Exercise::Io => "OUT to a port, which the VMM answers",
            Exercise::Mmio => "A read where there is no memory, which the VMM answers",
            Exercise::Hypercall => "VMCALL or VMMCALL, which KVM answers",
            Exercise::Hlt => "HLT, which exits to the VMM",
            Exercise::Spin => "No exit: what reading the clock takes",
        })
    };
    PossibleValuesParser::new(Exercise::ALL.map(named)).try_map(|name| {
        let mut all = Exercise::ALL.into_iter();
        all.find(|exercise| exercise.name() == name)
            .ok_or("no exit of this name")
    })
}
