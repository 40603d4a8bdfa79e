//! Checks that every result must pass, whatever fault happened.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::judge::{assert_budgets_add_up, assert_exits_add_up, assert_latencies_add_up};

/// Parses the JSON of a result.
pub(super) fn json(text: &[u8]) -> Result<Value> {
    let reported = || format!("not JSON: {}", String::from_utf8_lossy(text));
    serde_json::from_slice(text).with_context(reported)
}

/// Asserts that the result obeys the budget law of its schema. Also asserts that the losses of all
/// kinds add up to the total number of lost events.
pub(super) fn assert_adds_up(result: &Value) {
    match result["schema"].as_str() {
        Some("vmnoise.summary/1") => assert_budgets_add_up(result),
        Some("vmnoise.latency/1") => assert_latencies_add_up(result),
        Some("vmnoise.exits/1") => assert_exits_add_up(result),
        other => panic!("no law for {other:?}"),
    }
    let losses = result["losses"].as_object().expect("losses by kind");
    let sum: u64 = losses.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(sum), result["lost_events"].as_u64(), "{losses:?}");
}
