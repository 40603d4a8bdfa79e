//! Names of the exits for `--exercise`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vmnoise_workload::microvm::exercise::Exercise;

/// Returns a parser of exit names, with a help line for each.
pub fn parser() -> impl TypedValueParser<Value = Exercise> {
    let named = |exercise: Exercise| {
        PossibleValue::new(exercise.name()).help(match exercise {
            Exercise::Cpuid => "CPUID, which KVM answers",
            Exercise::Io => "OUT to a port, which the VMM answers",
            Exercise::Mmio => "A read of an address without memory, which the VMM answers",
            Exercise::Hypercall => "VMCALL or VMMCALL, which KVM answers",
            Exercise::Hlt => "HLT, which exits to the VMM",
            Exercise::Spin => "No exit: the cost of reading the clock",
        })
    };
    PossibleValuesParser::new(Exercise::ALL.map(named)).try_map(|name| {
        let mut all = Exercise::ALL.into_iter();
        all.find(|exercise| exercise.name() == name)
            .ok_or("no exit of this name")
    })
}
