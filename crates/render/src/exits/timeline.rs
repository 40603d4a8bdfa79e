//! Timelines of the longest exits as text, with a line for each piece. The pieces add up to the
//! exit.

use vmnoise_console::units::us;
use vmnoise_explain::{LongestExit, NamedExit, NamedPiece};
use vmnoise_views::trace_line::instant;

use super::parts;
use crate::cells;

/// Width of the drawing of an exit, in characters.
const WIDTH: u64 = 40;
/// Maximum number of pieces that a timeline shows one by one. Shorter pieces share one line.
const LINES: usize = 32;

/// Draws a timeline for each exit.
pub fn render(longest: &[LongestExit]) -> String {
    longest.iter().map(timeline).collect()
}

fn timeline(longest: &LongestExit) -> String {
    let exit = &longest.exit.exit;
    let (start_ns, dur_ns) = (exit.start_mono_ns, exit.dur_ns());
    let mut out = format!(
        "\n{}\n{:>12} {:>12}\n",
        heading(longest),
        "start us",
        "net us"
    );
    let least_ns = least_shown_ns(&longest.pieces);
    let (shown, others): (Vec<&NamedPiece>, Vec<&NamedPiece>) = longest
        .pieces
        .iter()
        .partition(|piece| piece.dur_ns() >= least_ns);
    for piece in shown {
        let offset_ns = piece.start_mono_ns - start_ns;
        let line = format!(
            "{:>12} {:>12}  |{}|  {} {}",
            us(offset_ns),
            us(piece.dur_ns()),
            bar(dur_ns, offset_ns, piece.dur_ns()),
            piece.share,
            piece.name.as_deref().unwrap_or_default(),
        );
        out += line.trim_end();
        out += "\n";
    }
    if !others.is_empty() {
        let space = " ".repeat(WIDTH as usize);
        out += &format!(
            "{:>12} {:>12}   {space}   in {} shorter pieces\n",
            "",
            us(sum_ns(others.iter().copied())),
            others.len()
        );
    }
    out += &format!("{:>12} {:>12}\n", "sum", us(sum_ns(&longest.pieces)));
    if longest.misplaced_ns > 0 {
        out += &format!(
            "{:>12} {:>12}  of it is in other shares in the kernel's sums, because records were lost\n",
            "",
            us(longest.misplaced_ns)
        );
    }
    out
}

fn heading(longest: &LongestExit) -> String {
    let NamedExit { vcpu, exit, .. } = &longest.exit;
    format!(
        "{} vCPU {}: {}, {} us from {}, {}",
        vcpu.vm_name,
        cells::number(vcpu.number.map(u64::from)),
        exit.reason,
        us(exit.dur_ns()),
        instant(exit.start_mono_ns),
        parts::cpus(exit.exit_cpu, exit.entry_cpu),
    )
}

fn sum_ns<'a>(pieces: impl IntoIterator<Item = &'a NamedPiece>) -> u64 {
    pieces.into_iter().map(NamedPiece::dur_ns).sum()
}

/// Returns the minimum length of a piece that has its own line, so that at most [`LINES`] pieces
/// have one.
fn least_shown_ns(pieces: &[NamedPiece]) -> u64 {
    let mut lengths: Vec<u64> = pieces.iter().map(NamedPiece::dur_ns).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.get(LINES).map_or(0, |too_short| too_short + 1)
}

/// Draws a bar that marks the place of a piece in the exit. The bar is at least one character wide.
fn bar(dur_ns: u64, offset_ns: u64, ns: u64) -> String {
    let place = |ns: u64, round_up: u64| {
        let dur_ns = u128::from(dur_ns.max(1));
        let scaled = u128::from(ns) * u128::from(WIDTH) + u128::from(round_up) * (dur_ns - 1);
        u64::try_from(scaled / dur_ns).unwrap_or(WIDTH)
    };
    let first = place(offset_ns, 0).min(WIDTH - 1);
    let end = place(offset_ns + ns, 1).clamp(first + 1, WIDTH);
    let mark = |at| if (first..end).contains(&at) { '#' } else { ' ' };
    (0..WIDTH).map(mark).collect()
}
