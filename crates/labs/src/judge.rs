//! What every answer must satisfy, whatever the cause was.

use serde_json::Value;

/// The budget law, read off a summary: what is known of the shares adds up to the
/// noise of each CPU, and the parts of each listed gap to its length.
///
/// # Panics
/// If it is broken, or the summary is none.
pub fn assert_budgets_add_up(summary: &Value) {
    let list = |key: &str| summary[key].as_array().expect("a summary has this list");
    for cpu in list("cpus") {
        let shares = cpu["shares_ns"].as_object().expect("each CPU has shares");
        let sum: u64 = shares.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), cpu["noise_ns"].as_u64(), "{cpu}");
    }
    for gap in list("worst") {
        let parts = gap["parts"].as_array().expect("each gap has parts");
        let sum: u64 = parts.iter().filter_map(|part| part["ns"].as_u64()).sum();
        assert_eq!(Some(sum), gap["dur_ns"].as_u64(), "{gap}");
    }
}
