//! Writes the table of wake-ups in a guest of Xen, with the default TIMER_SLOP and with less.

use serde_json::Value;

use super::maybe;
use crate::oracle::xen_slop::Woken;

/// Returns the section with the latencies of each context, with both values of TIMER_SLOP.
pub fn xen(found: &[Woken; 2]) -> String {
    let kernel = found[0].doctor["kernel"].as_str().unwrap_or_default();
    let mut text = format!(
        "### A guest of Xen with a task that wakes up every 50 µs\n\n\
         Linux {kernel} in a PV guest, Dom0 asleep, virtual time, 200 ms each. No timer fires earlier than \
         TIMER_SLOP after it was armed. This is 100 µs, or less with `xen_timer_slop=`.\n\n\
         | latency until | setting | median µs | 99 % | 99.9 % | largest |\n|---|---|---|---|---|---|\n"
    );
    for (context, name) in [("irq", "IRQ"), ("thread", "thread"), ("user", "user space")] {
        for woken in found {
            let how = match woken.command_line {
                "" => "as booted".to_owned(),
                line => format!("`{line}`"),
            };
            let figures = &woken.latency["cpus"][0][context];
            let cells = ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|key| us(&figures[key]));
            text += &format!("| {name} | {how} | {} |\n", cells.join(" | "));
        }
    }
    let periods = |woken: &Woken| {
        let cpu = &woken.latency["cpus"][0];
        let [count, missed] = [&cpu["count"], &cpu["missed"]].map(Value::as_u64);
        format!(
            "{} of {}",
            maybe(count),
            maybe(count.zip(missed).map(|(a, b)| a + b))
        )
    };
    text + &format!(
        "\nThe task woke up in {} periods as booted, and in {} with the short TIMER_SLOP.\n",
        periods(&found[0]),
        periods(&found[1])
    )
}

fn us(ns: &Value) -> String {
    maybe(ns.as_u64().map(|ns| format!("{:.1}", ns as f64 / 1e3)))
}
