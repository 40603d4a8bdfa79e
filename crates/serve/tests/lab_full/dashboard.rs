//! Tests Grafana's dashboard. It must equal the output of its generator, and may use only metrics
//! that exist.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::process::Command;

use serde_json::Value;
use vmnoise_testbed::bed::DebianProgram;

use crate::harness::{Serve, get_as};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Durations that replace Grafana's variables, because PromQL expects a duration there.
const WORDS: [(&str, &str); 2] = [("$__rate_interval", "5m"), ("$__range", "1h")];

fn committed() -> String {
    fs::read_to_string(format!("{REPOSITORY}/packaging/grafana/vmnoise.json")).unwrap()
}

/// Returns all PromQL expressions of the dashboard.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&committed()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| {
        let expression = target["expr"].as_str().unwrap().to_owned();
        WORDS.iter().fold(expression, |expression, (word, value)| {
            expression.replace(word, value)
        })
    });
    expressions.collect()
}

#[test]
fn it_is_what_grafanas_sdk_makes() {
    let mut generate = Command::new("python3");
    generate.arg(format!("{REPOSITORY}/packaging/grafana/dashboard.py"));
    generate.env("PYTHONPATH", format!("{REPOSITORY}/target/python"));
    let output = generate.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), committed());
}

#[test]
fn prometheus_takes_each_expression() {
    let mut rules = "groups: [{name: dashboard, rules: [\n".to_owned();
    let expressions = expressions();
    for (number, expression) in expressions.iter().enumerate() {
        // A JSON string is also valid in YAML.
        let expression = serde_json::to_string(expression).unwrap();
        writeln!(rules, "{{record: 'panel:{number}', expr: {expression}}},").unwrap();
    }
    rules += "]}]\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(&file, &rules).unwrap();
    let promtool = DebianProgram::Prometheus
        .programs()
        .unwrap()
        .join("promtool");
    let mut check = Command::new(promtool);
    let output = check.args(["check", "rules"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}\n{rules}");
    let found = format!("{} rules found", expressions.len());
    assert!(said.contains(&found), "{said}");
}

#[test]
fn each_metric_that_it_asks_for_is_served() {
    let serve = Serve::start();
    let text = get_as(serve.host(), "/metrics", "application/openmetrics-text").unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    let expressions = expressions().join(" ");
    let words = expressions.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let asked: BTreeSet<&str> = words.filter(|it| it.starts_with("vmnoise_")).collect();
    assert!(asked.len() > 5, "{asked:?}");
    for metric in asked {
        let family = metric.strip_suffix("_total").unwrap_or(metric);
        assert!(families.contains(family), "{metric}: {families:?}");
    }
}
