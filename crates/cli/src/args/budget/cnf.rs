//! Limits from the environment of the CNF latency tests (openshift/cluster-node-tuning-operator),
//! and from a ConfigMap of KubeVirt's realtime checkup (kiagnose/kubevirt-realtime-checkup).

use vmnoise_console::units::{Bare, parse_time};
use vmnoise_events::MeasuringCommand;
use vmnoise_judge::check::{Budget, Quantity, Requirement};

/// Variable with the limit of every test that has no variable of its own, in microseconds.
const FOR_ALL: &str = "MAXIMUM_LATENCY";
const OSLAT: &str = "OSLAT_MAXIMUM_LATENCY";
const CYCLICTEST: &str = "CYCLICTEST_MAXIMUM_LATENCY";
/// Variable with the required length of the run, in seconds.
const RUNTIME: &str = "LATENCY_TEST_RUNTIME";

/// Entry with the duration of the checkup's oslat run: a number and a unit.
const CHECKUP_DURATION: &str = "spec.param.oslatDuration";
const CHECKUP_MAX: &str = "spec.param.oslatLatencyThresholdMicroSeconds";
/// Default duration of the checkup (pkg/internal/config/config.go).
const CHECKUP_DURATION_NS: u64 = 300_000_000_000;
const CHECKUP_MAX_US: u64 = 40;
/// Beginnings of the names of entries that set no limit.
const CHECKUPS_OTHER: [&str; 4] = [
    "spec.timeout",
    "spec.param.vmUnderTestTargetNodeName",
    "spec.param.vmUnderTestContainerDiskImage",
    "status.",
];

/// Returns the limits that the environment sets for a run of `workload`; `value` looks up a
/// variable.
///
/// # Errors
/// A sentence that names the variable.
pub fn of_environment(
    workload: MeasuringCommand,
    value: impl Fn(&str) -> Option<String>,
) -> Result<Budget, String> {
    let own = match workload {
        MeasuringCommand::Timerlat => CYCLICTEST,
        _ => OSLAT,
    };
    let number = |name: &str| -> Result<Option<u64>, String> {
        let Some(text) = value(name) else {
            return Ok(None);
        };
        // Older versions of these tests use -1 for a variable that is not set.
        let number: Option<i64> = text.trim().parse().ok();
        let number = number.filter(|it| *it == -1 || *it > 0);
        let number = number.ok_or_else(|| {
            format!("{name}={text} in the environment is neither a whole number above 0 nor -1")
        })?;
        Ok(u64::try_from(number).ok())
    };
    let max_us = match number(own)? {
        Some(own) => Some(own),
        None => number(FOR_ALL)?,
    };
    let seconds = number(RUNTIME)?;
    Ok(Budget {
        requirements: max_us.map(max).into_iter().collect(),
        runtime_ns: seconds.map(|it| it.saturating_mul(1_000_000_000)),
    })
}

/// Applies one entry of a checkup's ConfigMap; returns false if the name is not the checkup's.
///
/// # Errors
/// A sentence that names the entry.
pub(super) fn take_of_checkup(
    budget: &mut Budget,
    name: &str,
    value: &str,
) -> Result<bool, String> {
    match name {
        CHECKUP_DURATION => {
            let ns =
                parse_time(value, Bare::Seconds).map_err(|error| format!("{name}: {error}"))?;
            budget.runtime_ns = Some(ns);
        }
        CHECKUP_MAX => {
            let us = value.trim().parse().ok().filter(|us| *us > 0);
            let us = us.ok_or_else(|| format!("{name}: `{value}` is no whole number above 0"))?;
            budget.requirements.push(max(us));
        }
        _ if CHECKUPS_OTHER.iter().any(|other| name.starts_with(other)) => {}
        _ if name.starts_with("spec.") => {
            // A mistyped name would limit nothing, and the run would pass.
            return Err(format!(
                "`{name}` is no entry of the realtime checkup; its limits are {CHECKUP_DURATION} and {CHECKUP_MAX}"
            ));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns the limits that the checkup uses for entries that are not in its ConfigMap.
pub(super) fn defaults_of_checkup() -> Budget {
    Budget {
        requirements: vec![max(CHECKUP_MAX_US)],
        runtime_ns: Some(CHECKUP_DURATION_NS),
    }
}

fn max(us: u64) -> Requirement {
    Requirement {
        quantity: Quantity::Max,
        at_most: us as f64 * 1e3,
        warn_above: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(workload: MeasuringCommand, variables: &[(&str, &str)]) -> Result<Budget, String> {
        of_environment(workload, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_variable_of_a_tool_comes_before_that_of_all() {
        let variables = [
            (FOR_ALL, "50"),
            (OSLAT, "20"),
            (CYCLICTEST, "-1"),
            (RUNTIME, "600"),
        ];
        let gaps = of(MeasuringCommand::Osnoise, &variables).unwrap();
        assert_eq!(gaps.requirements, [max(20)]);
        assert_eq!(gaps.runtime_ns, Some(600_000_000_000));
        let wakeups = of(MeasuringCommand::Timerlat, &variables).unwrap();
        assert_eq!(wakeups.requirements, [max(50)]);
        assert_eq!(
            of(MeasuringCommand::Osnoise, &[]).unwrap(),
            Budget::default()
        );
    }

    #[test]
    fn a_value_that_cannot_be_meant_is_refused_by_name() {
        for wrong in ["0", "-2", "20us", ""] {
            let error = of(MeasuringCommand::Osnoise, &[(OSLAT, wrong)]).unwrap_err();
            assert!(error.contains(OSLAT), "{error}");
        }
    }
}
