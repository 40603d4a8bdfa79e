//! Table of `rtla timerlat top`, with the same columns as in rtla, so that scripts written for rtla
//! can read it.

use std::time::Duration;

use super::columns::{ContextFigures, CpuColumns};
use crate::rtla;

/// Renders a row for every CPU and a row for all CPUs, each with three contexts.
pub fn render(columns: &CpuColumns, elapsed: Duration, nano: bool) -> String {
    let unit = if nano { "ns" } else { "us" };
    let per = if nano { 1 } else { 1_000 };
    // rtla fills its first line with blanks up to the last column.
    let mut out = format!("{:37}{:<100}\n", "", "Timer Latency");
    out += &format!(
        "{:<6}   |          IRQ Timer Latency ({unit})        |         Thread Timer Latency ({unit})      |    Ret user Timer Latency ({unit})\n",
        rtla::clock(elapsed),
    );
    out += "CPU COUNT      ";
    out += &["|      cur       min       avg       max"; 3].join(" ");
    out.push('\n');
    for (cpu, contexts) in columns.iter() {
        let cells = contexts.all().map(|figures| cells(&figures, per));
        // User space has a value for each wake-up. The other contexts have fewer values if steps
        // were not seen.
        let count = contexts.user.count;
        out += &format!("{cpu:>3} #{count:<9} |{}\n", cells.join(" |"));
    }
    out + &totals(columns, per)
}

fn totals(columns: &CpuColumns, per: u64) -> String {
    let total = columns.total();
    if total.user.count == 0 {
        return String::new();
    }
    let dashes = |count| "-".repeat(count);
    let rule = [dashes(15), dashes(40), dashes(39)].join("|");
    let (count, power) = short(total.user.count);
    let cells = total.all().map(|figures| {
        let blank = " ".repeat(10);
        blank + &cells(&figures, per)[10..]
    });
    format!(
        "{rule}-|{}\nALL #{count:<6} e{power} |{}\n",
        dashes(39),
        cells.join(" |")
    )
}

/// Cuts a count to its first six digits. Returns them, and the number of digits that were cut off.
fn short(mut count: u64) -> (u64, u32) {
    let mut power = 0;
    while count > 999_999 {
        count /= 10;
        power += 1;
    }
    (count, power)
}

fn cells(figures: &ContextFigures, per: u64) -> String {
    let known = |ns| figures.known(ns);
    let cells = [
        known(figures.current_ns),
        known(figures.min_ns),
        figures.mean_ns(),
        known(figures.max_ns),
    ];
    let cells = cells.map(|ns| match ns {
        Some(ns) => format!("{:>9}", ns / per),
        None => format!("{:>9}", "-"),
    });
    cells.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timerlat::fixtures::{unseen, wakeup};

    #[test]
    fn the_table_is_that_of_rtla() {
        let mut columns = CpuColumns::default();
        columns.add(&wakeup(0, 2_500, 9_100, 12_999));
        columns.add(&wakeup(0, 1_000, 4_000, 6_000));
        columns.add(&unseen(1, 70_000));
        let table = render(&columns, Duration::from_secs(61), false);
        let (title, rest) = table.split_once('\n').unwrap();
        assert_eq!((title.trim_end().len(), title.len()), (50, 137));
        let expected = "  0 00:01:01   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)      |    Ret user Timer Latency (us)
CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max |      cur       min       avg       max
  0 #2         |        1         1         1         2 |        4         4         6         9 |        6         6         9        12
  1 #1         |        -         -         -         - |        -         -         -         - |       70        70        70        70
---------------|----------------------------------------|----------------------------------------|---------------------------------------
ALL #3      e0 |                  1         1         2 |                  4         6         9 |                  6        29        70
";
        assert_eq!(rest, expected);
        let nano = render(&columns, Duration::ZERO, true);
        assert!(
            nano.contains("IRQ Timer Latency (ns)") && nano.contains("     2500"),
            "{nano}"
        );
    }

    #[test]
    fn a_long_count_is_cut_as_rtla_cuts_it() {
        assert_eq!(short(999_999), (999_999, 0));
        assert_eq!(short(12_345_678), (123_456, 2));
    }
}
