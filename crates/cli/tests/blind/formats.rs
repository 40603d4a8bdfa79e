//! Checks that output for other programs and for browsers has the same reasons as JSON.

use std::path::Path;

use serde_json::Value;

use super::{document, folder, kinds, vmnoise};

/// Returns the sentences of these reasons. "Above the limit" is in no other format, because FAIL
/// already says it.
fn sentences(reasons: &Value) -> Vec<String> {
    let reasons = reasons.as_array().unwrap().iter();
    let reasons = reasons.filter(|it| it["reason"] != "above");
    let texts = reasons.map(|it| it["text"].as_str().unwrap().to_owned());
    texts.collect()
}

fn output(folder: &Path, line: &str) -> String {
    String::from_utf8(vmnoise(folder, line).stdout).unwrap()
}

#[test]
fn the_page_of_a_comparison_has_the_reasons() {
    for kind in kinds::all() {
        let name = kind.name;
        let folder = folder(&kind);
        let line = "compare|whole.vmn|blind.vmn|--fail-if|noise>10%";
        let found = document(folder.path(), line);
        let page = output(folder.path(), &format!("{line}|--format|html"));
        let of_run = sentences(&found["runs"][1]["blind_spots"]);
        assert_eq!(of_run.is_empty(), kind.of_tasks, "{name}");
        for reason in &of_run {
            let item = format!("<li>blind.vmn: {reason}</li>");
            assert!(page.contains(&item), "{name}: {reason}");
        }
        let of_condition = sentences(&found["conditions"][0]["blind_spots"]);
        let items = page.matches("<li>blind.vmn").count();
        assert_eq!(items, of_run.len() + of_condition.len(), "{name}");
    }
}

#[test]
fn junit_of_an_audit_has_the_reasons() {
    for kind in kinds::all() {
        let name = kind.name;
        let folder = folder(&kind);
        let line = "audit|-c|1|blind.vmn";
        let reasons = sentences(&document(folder.path(), line)["blind_spots"]);
        let xml = output(folder.path(), &format!("{line}|--format|junit"));
        for reason in &reasons {
            let said = format!("findings may explain more: {reason}");
            assert!(xml.contains(&said), "{name}: {reason}: {xml}");
        }
        let is_skipped = xml.contains("type=\"lower-bound\"");
        assert_eq!(is_skipped, !reasons.is_empty(), "{name}: {xml}");
    }
}

#[test]
fn lavas_log_has_the_reasons() {
    let mut found_reasons = 0;
    for kind in kinds::all() {
        let name = kind.name;
        let folder = folder(&kind);
        let line = "check|blind.vmn|--limit|noise=10%";
        let found = document(folder.path(), line);
        let log = output(folder.path(), &format!("{line}|--format|lava"));
        let of_limit = sentences(&found["limits"][0]["reasons"]).into_iter();
        let of_limit = of_limit.map(|reason| format!("vmnoise-noise: {reason}"));
        let of_run = sentences(&found["reasons"]).into_iter();
        let of_run = of_run.map(|reason| format!("vmnoise: {reason}"));
        for reason in of_limit.chain(of_run) {
            assert!(
                log.lines().any(|it| it == reason),
                "{name}: {reason}: {log}"
            );
            found_reasons += 1;
        }
    }
    // For instance of the recording that was cut off.
    assert!(found_reasons > 0);
}
