//! Checks for impossible statements in outputs.

use std::fs;
use std::path::Path;

/// First digits of 2^64, and of its thousandth and millionth: a negative number that wrapped
/// around.
const WRAPPED: &str = "18446744073";
/// Percentages that may exceed 100. BPF runs on all CPUs, also on those that are not measured;
/// their number is unknown, so its cost is reported in whole CPUs.
const OF_MANY_CPUS: [&str; 2] = ["own cost", "percent_of_runtime"];

/// Checks a text or a JSON document.
pub fn check(text: &str) -> Result<(), String> {
    for line in text.lines() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        // The decimal point may be anywhere.
        let digits: String = line.chars().filter(|letter| *letter != '.').collect();
        if digits.contains(WRAPPED) {
            return wrong("a number that went below 0");
        }
        if OF_MANY_CPUS.iter().any(|words| line.contains(words)) {
            continue;
        }
        if percentages(line).any(|percent| !(0.0..=100.0).contains(&percent)) {
            return wrong("a part that is larger than its whole");
        }
    }
    Ok(())
}

/// Checks every table of a data set.
pub fn check_tables(folder: &Path) -> Result<(), String> {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            check_tables(&path)?;
            continue;
        }
        let table = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let reported = check(&table).and_then(|()| check_cells(&table));
        reported.map_err(|what| format!("{}: {what}", path.display()))?;
    }
    Ok(())
}

/// Lengths, counts and instants are never negative.
fn check_cells(table: &str) -> Result<(), String> {
    let below = |cell: &str| cell.parse::<f64>().is_ok_and(|number| number < 0.0);
    let line = table.lines().find(|line| line.split(',').any(below));
    line.map_or(Ok(()), |line| Err(format!("a number below 0: {line}")))
}

/// Checks the text of a page, without scripts and styles.
pub fn check_page(page: &str) -> Result<(), String> {
    let mut shown = String::new();
    for (nth, piece) in page.split("<script").enumerate() {
        shown += match piece.split_once("</script>") {
            Some((_, after)) if nth > 0 => after,
            _ => piece,
        };
    }
    let shown = match (shown.split_once("<style>"), shown.split_once("</style>")) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => shown,
    };
    check(&shown)
}

/// Returns the numbers before a `%`, and those after a key of a percentage.
fn percentages(line: &str) -> impl Iterator<Item = f64> {
    let signs = line
        .match_indices('%')
        .map(|(place, _)| line[..place].trim_end());
    let before = signs.filter_map(|before| {
        let number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-');
        let begin = before.trim_end_matches(number).len();
        before[begin..].parse().ok()
    });
    let keyed = line.split_once("percent").and_then(|(_, after)| {
        let value = after.split_once(": ")?.1;
        value.trim_end_matches(',').parse().ok()
    });
    before.chain(keyed)
}
