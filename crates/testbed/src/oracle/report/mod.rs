//! Writes the generated sections of documentation pages.

mod faults;
mod flagship;
mod mpi;
mod timerlat;
mod xen;

use anyhow::{Context, Result};

use super::agreement::Agreement;
use super::osnoise::{BesideKernel, TracerTurn};
use super::residual::{MeasuringSide, Residual};
use super::softirqs::Softirqs;

pub use faults::faults;
pub use flagship::{busiest_exit, flagship};
pub use mpi::mpi;
pub use timerlat::{TimerlatTruth, timerlat};
pub use xen::xen;

/// A generated section of a page. It stands between two markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePart {
    /// Comparison of `vmnoise osnoise` and the join with other tools.
    Noise,
    /// Comparison of `vmnoise timerlat` with other tools.
    Timerlat,
    /// Faults that were caused, and the findings of `vmnoise audit`.
    Faults,
    /// Predictions of `vmnoise scale` compared with a measured MPI program.
    Mpi,
    /// Effect of TIMER_SLOP on the latencies in a guest of Xen.
    Xen,
}

impl PagePart {
    /// Returns the marker lines before and after the section.
    fn markers(self) -> [String; 2] {
        let name = match self {
            PagePart::Noise => "make validate",
            PagePart::Timerlat => "make validate, timerlat",
            PagePart::Faults => "make validate, audit",
            PagePart::Mpi => "make validate, mpi",
            PagePart::Xen => "make validate, xen",
        };
        ["begin", "end"].map(|place| format!("<!-- {place}: {name} -->\n"))
    }
}

/// Replaces a generated section of a page.
///
/// # Errors
/// If the page lacks the section's markers.
pub fn renewed(page: &str, part: PagePart, generated: &str) -> Result<String> {
    let [begin, end] = part.markers();
    let missing = || format!("the page lacks `{}` and `{}`", begin.trim(), end.trim());
    let (before, rest) = page.split_once(&begin).with_context(missing)?;
    let (_, after) = rest.split_once(&end).with_context(missing)?;
    Ok(format!(
        "{before}{begin}\n{}\n\n{end}{after}",
        generated.trim()
    ))
}

/// Returns the section that compares `vmnoise` with the kernel's tracer.
pub fn beside(found: &BesideKernel, repeats: bool) -> String {
    let mut text = format!(
        "### On the thread of the kernel's tracer\n\nLinux {}, virtual time, {} ms, {} events lost. \
         A second boot gave {}.\n\n{}",
        found.kernel_version,
        found.window_ns / 1_000_000,
        found.lost_events,
        if repeats {
            "exactly the same result"
        } else {
            "another result"
        },
        AGREEMENT_HEAD
    );
    let rows = found
        .agreements
        .iter()
        .filter(|row| row.kernel + row.ours > 0);
    text.extend(rows.map(row));
    let gaps = &found.gaps;
    let [kernel_ns, our_ns, untold_ns] = [
        gaps.kernel_median_ns,
        gaps.our_median_ns,
        gaps.untold_median_ns,
    ]
    .map(maybe);
    text += &format!(
        "\n| gaps | kernel | vmnoise |\n|---|---|---|\n\
         | number | {} | {} |\n| without a counterpart | {} | {} |\n\
         | median length of the kernel's gaps, and of the part of them that vmnoise's gaps cover, ns | {kernel_ns} | {our_ns} |\n\
         | median part that vmnoise's gaps do not cover, ns | | {untold_ns} |\n",
        gaps.kernel,
        gaps.ours,
        gaps.missed.len(),
        gaps.surplus.len()
    );
    text += &format!(
        "\n### One after the other, each alone\n\n| per second | kernel | vmnoise |\n|---|---|---|\n{}",
        turns(&found.kernel_alone, &found.ours_alone)
    );
    text
}

/// Returns the section that compares the NMIs of both tracers.
pub fn nmis(found: &Agreement) -> String {
    let row = row(found);
    format!("### NMIs\n\nAlso on the thread of the kernel's tracer.\n\n{AGREEMENT_HEAD}{row}")
}

/// Returns the section that compares the softirqs of both tracers.
pub fn soft_interrupts(found: &Softirqs) -> String {
    let mut text = format!(
        "### Softirqs\n\nLinux {}, virtual time, {} ms.\n\n{AGREEMENT_HEAD}{}\n\
         | | tracefs | /proc/softirqs |\n|---|---|---|\n",
        found.kernel_version,
        found.window_ns / 1_000_000,
        row(&found.agreement),
    );
    for (name, (traced, counted)) in &found.counted {
        text += &format!(
            "| {} | {traced} | {counted} |\n",
            name.trim_end_matches(':')
        );
    }
    text
}

/// Returns the section that compares a guest and its host on this machine.
pub fn guest_and_host(found: &[Residual]) -> String {
    let mut text = "### The layers below this machine, observed by its guest and by itself\n\n\
                    | run | µs/s | gaps/s | period µs | part of the residual |\n|---|---|---|---|---|\n"
        .to_owned();
    for run in found {
        text += &format!(
            "| `{}` | {:.0} | {:.0} | {} | {} |\n",
            run.side.command(),
            run.us_per_s,
            run.bare_gaps_per_s,
            maybe(run.period_us.map(|us| format!("{us:.1}"))),
            maybe(
                run.periodic_percent
                    .map(|percent| format!("{percent:.0} %"))
            ),
        );
    }
    let [guest, host] =
        [MeasuringSide::Guest, MeasuringSide::Host].map(|side| Spread::of(found, side));
    for spread in [&guest, &host] {
        let Spread {
            side,
            low,
            mean,
            high,
        } = spread;
        let side = side.command();
        text += &format!("\n`{side}`: mean {mean:.0} µs/s, from {low:.0} to {high:.0}.\n");
    }
    let apart = (guest.mean - host.mean).abs();
    let spread = (guest.high - guest.low).max(host.high - host.low);
    text + &format!(
        "The means are {apart:.0} µs/s apart. Runs of one side are up to {spread:.0} µs/s apart.\n"
    )
}

/// Lowest, mean and highest rate of lost time of one measuring program, microseconds per second.
struct Spread {
    side: MeasuringSide,
    low: f64,
    mean: f64,
    high: f64,
}

impl Spread {
    fn of(found: &[Residual], side: MeasuringSide) -> Spread {
        let runs = found.iter().filter(|run| run.side == side);
        let rates: Vec<f64> = runs.map(|run| run.us_per_s).collect();
        Spread {
            side,
            low: rates.iter().copied().fold(f64::MAX, f64::min),
            mean: rates.iter().sum::<f64>() / rates.len() as f64,
            high: rates.iter().copied().fold(0.0, f64::max),
        }
    }
}

const AGREEMENT_HEAD: &str = "\
| event | kernel | vmnoise | matched | median ns, kernel | vmnoise | median difference | largest |
|---|---|---|---|---|---|---|---|
";

fn row(row: &Agreement) -> String {
    let [kernel_ns, our_ns, distance_ns, max_ns] = [
        row.kernel_median_ns,
        row.our_median_ns,
        row.median_distance_ns,
        row.max_distance_ns,
    ]
    .map(maybe);
    format!(
        "| `{}` | {} | {} | {} | {kernel_ns} | {our_ns} | {distance_ns} | {max_ns} |\n",
        row.kind.event(),
        row.kernel,
        row.ours,
        row.pairs,
    )
}

fn turns(kernel: &TracerTurn, ours: &TracerTurn) -> String {
    let per_second =
        |turn: &TracerTurn, count: u64| count as f64 * 1e9 / turn.span_ns.max(1) as f64;
    let mut text = String::new();
    for ((kind, kernel_count), (_, our_count)) in kernel.counts.iter().zip(&ours.counts) {
        text += &format!(
            "| `{}` | {:.0} | {:.0} |\n",
            kind.event(),
            per_second(kernel, *kernel_count as u64),
            per_second(ours, *our_count as u64),
        );
    }
    text += &format!(
        "| turns of our own threads | {:.0} | {:.0} |\n",
        per_second(kernel, kernel.own_turns as u64),
        per_second(ours, ours.own_turns as u64),
    );
    text += &format!(
        "| time in gaps, µs | {:.0} | {:.0} |\n",
        per_second(kernel, kernel.noise_ns) / 1e3,
        per_second(ours, ours.noise_ns) / 1e3,
    );
    let [kernel_tick, our_tick] = [kernel.tick_ns, ours.tick_ns].map(maybe);
    text + &format!("| median `local_timer:236`, ns | {kernel_tick} | {our_tick} |\n")
}

fn maybe(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_markers_is_renewed() {
        let [begin, end] = PagePart::Noise.markers();
        let [other_begin, other_end] = PagePart::Timerlat.markers();
        let other = format!("{other_begin}other\n{other_end}");
        let page = format!("above\n{begin}old\n{end}below\n{other}");
        let new = renewed(&page, PagePart::Noise, "new\n").unwrap();
        assert_eq!(new, format!("above\n{begin}\nnew\n\n{end}below\n{other}"));
        let new = renewed(&page, PagePart::Timerlat, "new\n").unwrap();
        assert!(new.starts_with(&format!("above\n{begin}old\n")), "{new}");
        assert!(renewed("no markers", PagePart::Noise, "new").is_err());
    }
}
