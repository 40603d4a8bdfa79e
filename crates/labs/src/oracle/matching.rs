//! Pairs the lines of our trace with those of the kernel's trace that report the same event.

use super::trace::{OsnoiseEventKind, OsnoiseLine};

/// Two lines of one name that begin within this time are the same event, in nanoseconds. Both have
/// a timestamp from one tracepoint, one probe after the other.
const SAME_NS: u64 = 20_000;

/// A line of the kernel's trace and ours of the same event.
pub type LinePair<'a> = (&'a OsnoiseLine, &'a OsnoiseLine);

/// Lines of both traces over the same window.
#[derive(Debug)]
pub struct Matching<'a> {
    /// Lines of the kernel in the window.
    pub kernel: Vec<&'a OsnoiseLine>,
    /// Our lines in the window.
    pub ours: Vec<&'a OsnoiseLine>,
    /// Lines of the same event; gaps have no pairs.
    pub pairs: Vec<LinePair<'a>>,
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
}

/// Window that two traces both watched: from the later first line to the earlier last one.
#[derive(Debug, Clone, Copy)]
pub struct CommonWindow {
    /// Start.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
}

impl CommonWindow {
    /// Returns the window that both traces watched; empty if one of them is empty.
    pub fn by_both(kernel: &[OsnoiseLine], ours: &[OsnoiseLine]) -> CommonWindow {
        let begin = |lines: &[OsnoiseLine]| lines.iter().map(|line| line.start_ns).min();
        let end = |lines: &[OsnoiseLine]| lines.iter().map(|line| line.at_ns).max();
        CommonWindow {
            from_ns: begin(kernel).max(begin(ours)).unwrap_or(0),
            to_ns: end(kernel).min(end(ours)).unwrap_or(0),
        }
    }
}

/// Pairs the lines of the kernel's trace with ours. The kernel's must be on our clock
/// ([`on_our_clock`]). The window is the one that both traces watched: an event that began before
/// it, or ended after it, is in one trace only.
pub fn matching<'a>(kernel: &'a [OsnoiseLine], ours: &'a [OsnoiseLine]) -> Matching<'a> {
    let watched = CommonWindow::by_both(kernel, ours);
    // Half of the distance for the same event, so that the window's edge splits no pair.
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

/// Converts the kernel's lines to our clock. The tracer's own times use the scheduler's clock. The
/// trace uses CLOCK_MONOTONIC, as we do, and its line of an interrupt is written right at the
/// interrupt's end.
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

/// Returns the lower median; `None` without values.
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
