//! Parses a file of limits, in YAML or JSON.

use vmnoise_console::units::{Bare, parse_time};
use vmnoise_judge::check::Budget;
use yaml_rust2::yaml::Hash;
use yaml_rust2::{Yaml, YamlLoader};

use super::{cnf, requirement};

/// Key of the least length of the run.
const DURATION: &str = "duration";
const FAIL: &str = "fail";
const WARN: &str = "warn";
/// Largest size of a budget file.
const MOST_BYTES: usize = 1 << 20;

/// Parses a budget file.
///
/// # Errors
/// A sentence that says what is wrong, where, and what is accepted.
pub fn parse(text: &str) -> Result<Budget, String> {
    if text.len() > MOST_BYTES {
        return Err(
            "the file is larger than 1 MiB; write one limit a line, such as `max: 40us`".into(),
        );
    }
    let documents = YamlLoader::load_from_str(text).map_err(|error| format!("no YAML: {error}"))?;
    let [Yaml::Hash(all)] = &documents[..] else {
        return Err("write one limit a line, such as `max: 40us`".into());
    };
    // The entries of a ConfigMap are below `data`.
    let of_all = |key: &str| all.get(&Yaml::String(key.into()));
    let entries = match (of_all("kind"), of_all("data")) {
        (Some(Yaml::String(kind)), Some(Yaml::Hash(data))) if kind == "ConfigMap" => data,
        _ => all,
    };
    let mut budget = Budget::default();
    let mut is_of_checkup = false;
    for (name, value) in entries {
        let name = word(name).ok_or("a limit begins with the name of a figure, such as `max`")?;
        is_of_checkup |= name.starts_with("spec.");
        take(&mut budget, &name, value)?;
    }
    if is_of_checkup {
        budget.add_what_is_not_limited(cnf::defaults_of_checkup());
    }
    Ok(budget)
}

fn take(budget: &mut Budget, name: &str, value: &Yaml) -> Result<(), String> {
    let word = word(value);
    if let Some(word) = &word
        && cnf::take_of_checkup(budget, name, word)?
    {
        return Ok(());
    }
    match (word, value) {
        (Some(word), _) if name == DURATION => {
            let ns =
                parse_time(&word, Bare::Seconds).map_err(|error| format!("{name}: {error}"))?;
            budget.runtime_ns = Some(ns);
        }
        (Some(word), _) => budget.requirements.push(requirement(name, &word, None)?),
        (None, Yaml::Hash(two)) => {
            let (fail, warn) = two_limits(name, two)?;
            budget
                .requirements
                .push(requirement(name, &fail, warn.as_deref())?);
        }
        _ => {
            return Err(format!(
                "{name}: write a limit, such as `40us`, or both `{WARN}` and `{FAIL}`"
            ));
        }
    }
    Ok(())
}

/// Returns the limit above which a run fails, and the limit above which it warns.
fn two_limits(name: &str, two: &Hash) -> Result<(String, Option<String>), String> {
    let is_known = |key: &&Yaml| [Some(FAIL), Some(WARN)].contains(&key.as_str());
    if let Some(other) = two.keys().find(|key| !is_known(key)) {
        let other = word(other).unwrap_or_default();
        return Err(format!(
            "{name}: `{other}` is neither `{WARN}` nor `{FAIL}`"
        ));
    }
    let of = |key: &str| two.get(&Yaml::String(key.into())).and_then(word);
    let fail = of(FAIL).ok_or_else(|| format!("{name}: it has no limit: write `{FAIL}: 40us`"))?;
    Ok((fail, of(WARN)))
}

/// Returns a scalar as text; `None` for other values.
fn word(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(word) | Yaml::Real(word) => Some(word.clone()),
        Yaml::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_judge::check::Quantity;

    use super::*;

    fn limits(text: &str) -> Vec<(String, f64, Option<f64>)> {
        let budget = parse(text).unwrap();
        let all = budget.requirements.into_iter();
        all.map(|it| (it.quantity.to_string(), it.at_most, it.warn_above))
            .collect()
    }

    #[test]
    fn one_limit_a_line() {
        let text = "# what a core of ours has to do with\nduration: 5m\nmax: {warn: 30us, fail: 40us}\np99.9: 20\n\
                    preempted by qemu-*: 0%\n";
        assert_eq!(
            limits(text),
            [
                ("max".to_owned(), 40_000.0, Some(30_000.0)),
                ("p99.9".to_owned(), 20_000.0, None),
                ("preempted by qemu-*".to_owned(), 0.0, None),
            ]
        );
        assert_eq!(parse(text).unwrap().runtime_ns, Some(300_000_000_000));
    }

    #[test]
    fn a_checkups_config_map_is_understood() {
        let text = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: realtime-checkup-config
data:
  spec.timeout: 15m
  spec.param.vmUnderTestTargetNodeName: "node"
  spec.param.oslatDuration: 10m
  spec.param.oslatLatencyThresholdMicroSeconds: "45"
  status.succeeded: "true"
"#;
        let budget = parse(text).unwrap();
        assert_eq!(budget.runtime_ns, Some(600_000_000_000));
        let [only] = &budget.requirements[..] else {
            panic!("{budget:?}");
        };
        assert_eq!((&only.quantity, only.at_most), (&Quantity::Max, 45_000.0));
    }

    /// A ConfigMap without a threshold gets the checkup's default, so it still limits the run.
    #[test]
    fn a_checkup_has_its_defaults_and_no_names_that_are_mistyped() {
        let budget =
            parse("spec.timeout: 15m\nspec.param.vmUnderTestTargetNodeName: \"\"\n").unwrap();
        assert_eq!(budget.runtime_ns, Some(300_000_000_000));
        assert_eq!(budget.requirements[0].at_most, 40_000.0);
        let error = parse("spec.param.oslatLatencyTresholdMicroSeconds: 45").unwrap_err();
        assert!(
            error.contains("Treshold") && error.contains("Threshold"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        for (wrong, said) in [
            ("", "one limit a line"),
            ("max", "one limit a line"),
            ("max: [1]", "write a limit"),
            ("max: {warn: 1us}", "it has no limit"),
            ("max: {fail: 1us, warm: 1us}", "`warm` is neither"),
            ("max: {fail: 1us, warn: 2us}", "lower `warn`"),
            ("steel: 1%", "there is no figure `steel`"),
            ("duration: soon", "duration: "),
            (
                "spec.param.oslatLatencyThresholdMicroSeconds: x",
                "no whole number",
            ),
            ("a: [", "no YAML"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
