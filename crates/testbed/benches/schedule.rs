//! `cargo bench -p vmnoise-testbed --bench schedule`: time and memory of `vmnoise schedule`. The
//! input is a generated recording of two CPUs.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod many_gaps;

use std::fs;

use anyhow::{Context, Result};

use self::many_gaps::{generate, time};

const TASKS: &str = r#"
policy = "fp"
[[task]]
name = "control"
cost = "200us"
period = "1ms"
priority = 80
[[task]]
name = "log"
cost = "5ms"
period = "20ms"
priority = 20
"#;

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tasks = folder.path().join("tasks.toml");
    fs::write(&tasks, TASKS)?;
    let tasks = tasks.to_str().context("a path in UTF-8")?;
    // The largest recording is the last, because the printed memory is the largest of all runs so
    // far.
    for gaps in [100_000, 1_000_000, 10_000_000] {
        let recording = folder.path().join("generated.vmn");
        generate(&recording, gaps)?;
        let table = folder.path().join("left.csv");
        let table = table.to_str().context("a path in UTF-8")?;
        for (what, words) in [
            ("the worst windows", &["schedule"] as &[&str]),
            ("two tasks", &["schedule", "--tasks", tasks]),
            ("the function", &["schedule", "--csv", table]),
        ] {
            time(&format!("{what:>17}, {gaps:>9} gaps"), words, &recording)?;
        }
    }
    Ok(())
}
