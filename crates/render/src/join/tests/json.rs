//! Tests of a joined run as JSON.

use super::super::*;
use super::fixtures::{both, run, summary};

#[test]
fn json_has_the_head_first_and_every_key_is_documented() {
    let (guest, host) = both();
    let run = run(summary(&guest));
    let mut out = Vec::new();
    let document = JoinDocument::new(&JoinResult {
        guest: &guest,
        host: &host,
        run: &run,
    });
    json::write(&mut out, &document).unwrap();
    let text = String::from_utf8(out).unwrap();
    let first: Vec<&str> = text.lines().skip(1).take(6).collect();
    let head = [
        "schema",
        "tool_version",
        "kernel",
        "hypervisor",
        "started_at",
        "options",
    ];
    for (line, key) in first.iter().zip(head) {
        assert!(line.starts_with(&format!("  \"{key}\": ")), "{text}");
    }

    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "vmnoise.join/1");
    assert_eq!(json["above_ns"], 20_000);
    assert_eq!(json["pairs"][0]["slack_ns"], serde_json::json!([-96, 1418]));
    assert_eq!(json["culprits"][0]["side"], "host");
    assert_eq!(json["culprits"][6]["cpu"], serde_json::Value::Null);
    assert_eq!(json["trees"][0]["exits"][0]["parts"][1]["share"], "kvm");
    assert_eq!(json["host"]["hypervisor"], serde_json::Value::Null);
    assert_eq!(json["cpus"][0]["guest_columns"]["virt_ns"], 32_229);

    let page = include_str!("../../../../../docs/json.md");
    let (_, section) = page.split_once("## `vmnoise.join/1`").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    for part in ["host", "pairs", "joined", "culprits", "trees", "thesis"] {
        let mut keys = vec![part.to_owned()];
        collect_keys(&json[part], &mut keys);
        for key in keys {
            let words = section.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            assert!(
                words.into_iter().any(|word| word == key),
                "docs/json.md says nothing of `{key}` in `{part}`"
            );
        }
    }
}

/// Collects the names of all members. Members inside `options`, `losses` and `rungs` are left out,
/// because other sections document them.
fn collect_keys(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                keys.push(key.clone());
                if !["options", "losses", "rungs"].contains(&key.as_str()) {
                    collect_keys(value, keys);
                }
            }
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| collect_keys(value, keys));
        }
        _ => {}
    }
}
