//! Pairs lines of our trace with lines of the kernel's trace that report the same event.

use super::trace::{OsnoiseEventKind, OsnoiseLine};

/// Limit in nanoseconds: two lines of the same name report the same event if their starts differ by
/// at most this time. Both timestamps come from one tracepoint, at which one probe runs after the
/// other.
const SAME_NS: u64 = 20_000;

/// A line of the kernel's trace, and our line that reports the same event.
pub type LinePair<'a> = (&'a OsnoiseLine, &'a OsnoiseLine);

/// Lines of both traces over the same window.
#[derive(Debug)]
pub struct Matching<'a> {
    /// Lines of the kernel in the window.
    pub kernel: Vec<&'a OsnoiseLine>,
    /// Our lines in the window.
    pub ours: Vec<&'a OsnoiseLine>,
    /// Pairs of lines that report the same event. Gaps have no pairs.
    pub pairs: Vec<LinePair<'a>>,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
}

/// Window that two traces both cover. It begins at the later of the first lines, and ends at the
/// earlier of the last lines.
#[derive(Debug, Clone, Copy)]
pub struct CommonWindow {
    /// Start of the window, nanoseconds.
    pub from_ns: u64,
    /// End of the window, nanoseconds.
    pub to_ns: u64,
}

impl CommonWindow {
    /// Returns the window that both traces cover. The window is empty if one of the traces is
    /// empty.
    pub fn by_both(kernel: &[OsnoiseLine], ours: &[OsnoiseLine]) -> CommonWindow {
        let begin = |lines: &[OsnoiseLine]| lines.iter().map(|line| line.start_ns).min();
        let end = |lines: &[OsnoiseLine]| lines.iter().map(|line| line.at_ns).max();
        CommonWindow {
            from_ns: begin(kernel).max(begin(ours)).unwrap_or(0),
            to_ns: end(kernel).min(end(ours)).unwrap_or(0),
        }
    }
}

/// Pairs the lines of the kernel's trace with our lines. The kernel's lines must be on our clock
/// ([`on_our_clock`]). Only lines in the window that both traces cover are paired, because other
/// events may be in one trace only.
pub fn matching<'a>(kernel: &'a [OsnoiseLine], ours: &'a [OsnoiseLine]) -> Matching<'a> {
    let watched = CommonWindow::by_both(kernel, ours);
    // Half of the limit for the same event, so that the edge of the window does not separate a
    // pair.
    let from_ns = watched.from_ns.saturating_sub(SAME_NS / 2);
    let to_ns = watched.to_ns + SAME_NS / 2;
    let within = |lines: &'a [OsnoiseLine]| -> Vec<&'a OsnoiseLine> {
        let inside = |line: &&OsnoiseLine| line.start_ns >= from_ns && line.at_ns <= to_ns;
        lines.iter().filter(inside).collect()
    };
    let (kernel, ours) = (within(kernel), within(ours));
    let pairs = OsnoiseEventKind::NOISE
        .iter()
        .flat_map(|kind| pairs_of(*kind, &kernel, &ours))
        .collect();
    Matching {
        kernel,
        ours,
        pairs,
        window_ns: to_ns.saturating_sub(from_ns),
    }
}

fn pairs_of<'a>(
    kind: OsnoiseEventKind,
    kernel: &[&'a OsnoiseLine],
    ours: &[&'a OsnoiseLine],
) -> Vec<LinePair<'a>> {
    let of_kind = |lines: &[&'a OsnoiseLine]| -> Vec<&'a OsnoiseLine> {
        let found = lines.iter().filter(|line| line.kind == kind);
        found.copied().collect()
    };
    let mut ours = of_kind(ours);
    let mut pairs = Vec::new();
    for theirs in of_kind(kernel) {
        let nearest = ours
            .iter()
            .enumerate()
            .filter(|(_, line)| line.name == theirs.name)
            .map(|(index, line)| (line.start_ns.abs_diff(theirs.start_ns), index))
            .min();
        if let Some((distance_ns, index)) = nearest
            && distance_ns <= SAME_NS
        {
            pairs.push((theirs, ours.remove(index)));
        }
    }
    pairs
}

/// Converts the starts of the kernel's lines to our clock. The tracer's own times use the
/// scheduler's clock. The trace uses CLOCK_MONOTONIC, as we do. The tracer writes the line of an
/// interrupt right at the interrupt's end, so this line gives the difference of both clocks.
pub fn on_our_clock(mut kernel: Vec<OsnoiseLine>) -> Vec<OsnoiseLine> {
    let ends = kernel
        .iter()
        .filter(|line| line.kind == OsnoiseEventKind::Irq);
    let offset_ns = median(ends.map(|line| {
        let end_ns = line.start_ns + line.dur_ns;
        i128::from(line.at_ns) - i128::from(end_ns)
    }));
    if let Some(offset_ns) = offset_ns {
        for line in &mut kernel {
            let start_ns = i128::from(line.start_ns) + offset_ns;
            line.start_ns = u64::try_from(start_ns).unwrap_or(0);
        }
    }
    kernel
}

/// Returns the median, and the lower one of two middle values; `None` without values.
pub fn median<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    let middle = values.len().checked_sub(1)? / 2;
    values.into_iter().nth(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn irq(name: &str, start_ns: u64, dur_ns: u64) -> OsnoiseLine {
        OsnoiseLine {
            kind: OsnoiseEventKind::Irq,
            name: name.into(),
            at_ns: start_ns + dur_ns + 5_000_000,
            start_ns,
            dur_ns,
        }
    }

    #[test]
    fn the_kernels_clock_is_moved_onto_that_of_its_trace() {
        let moved = on_our_clock(vec![irq("a:1", 1_000, 10), irq("a:1", 2_000, 20)]);
        assert_eq!(moved[1].start_ns, 5_002_000);
    }

    #[test]
    fn only_lines_of_one_name_at_one_time_in_both_windows_are_pairs() {
        let far = 10 * SAME_NS;
        let lines = |names: &[&str]| -> Vec<OsnoiseLine> {
            let all = names.iter().enumerate();
            all.map(|(index, name)| irq(name, index as u64 * far, 9))
                .collect()
        };
        let kernel = lines(&["a:1", "a:1", "b:2", "a:1", "a:1"]);
        let ours: Vec<OsnoiseLine> = lines(&["-", "a:1", "c:3", "a:1"]).split_off(1);
        let matching = matching(&kernel, &ours);
        assert_eq!((matching.kernel.len(), matching.ours.len()), (3, 3));
        assert_eq!(matching.pairs.len(), 2);
        assert!(matching.pairs.iter().all(|(theirs, ours)| theirs == ours));
    }
}
