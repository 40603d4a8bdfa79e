//! A run, cut into windows.

use std::collections::BTreeMap;

use vmnoise_events::{Event, RunFacts, Share, ShareMap};

use vmnoise_explain::Explainer;
use vmnoise_explain::Interval;
use vmnoise_explain::Lengths;
use vmnoise_explain::PeriodLine;
use vmnoise_explain::Summary;

/// Gaps or wake-ups of some time, over all measured CPUs. Each CPU's sums have room; all together
/// stop at the end of a u64, which only a stream that was made up reaches.
#[derive(Debug)]
pub struct Window {
    /// How long the workloads ran, all together, nanoseconds.
    pub runtime_ns: u64,
    /// Length of the gaps, or of the latencies until user space, nanoseconds.
    pub noise_ns: u64,
    /// The longest of them, nanoseconds; 0 if there were none.
    pub max_gap_ns: u64,
    pub(crate) lengths: Lengths,
    /// Of wake-ups: how late in the timer's interrupt.
    pub(super) irq: Latencies,
    /// Of wake-ups: how late when the task was switched in.
    pub(super) thread: Latencies,
    /// Expiries that were over before a task could ask for them.
    pub(super) missed: u64,
    /// How many of them are longer than each of the limits that are counted.
    pub above: Vec<u64>,
    shares_ns: ShareMap<u64>,
    known: ShareMap<bool>,
}

/// How late tasks were in one context.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    lengths: Lengths,
    max_ns: u64,
}

impl Latencies {
    fn record(&mut self, ns: u64) {
        self.lengths.record(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// As [`Window::length_at`].
    pub(super) fn length_at(&self, rank: u16) -> Option<u64> {
        length_at(&self.lengths, self.max_ns, rank)
    }
}

fn length_at(lengths: &Lengths, max_ns: u64, rank: u16) -> Option<u64> {
    let [length_ns] = lengths.at_quantiles([f64::from(rank) / 10_000.0]);
    (lengths.count() > 0).then(|| length_ns.min(max_ns))
}

impl Window {
    fn empty(limits: usize) -> Window {
        Window {
            runtime_ns: 0,
            noise_ns: 0,
            max_gap_ns: 0,
            lengths: Lengths::default(),
            irq: Latencies::default(),
            thread: Latencies::default(),
            missed: 0,
            above: vec![0; limits],
            shares_ns: ShareMap::default(),
            known: ShareMap::from_fn(|_| true),
        }
    }

    /// What a share took, nanoseconds; `None` where it is not known on some CPU.
    pub fn share_ns(&self, share: Share) -> Option<u64> {
        self.known[share].then_some(self.shares_ns[share])
    }

    /// What is booked to a share, whether or not all of it is known; nanoseconds.
    pub(crate) fn booked_ns(&self, share: Share) -> u64 {
        self.shares_ns[share]
    }

    /// What so many of ten thousand gaps, or latencies until user space, do not exceed, to three
    /// digits and the longest to the nanosecond; `None` without any.
    pub(super) fn length_at(&self, rank: u16) -> Option<u64> {
        length_at(&self.lengths, self.max_gap_ns, rank)
    }

    fn add(&mut self, gap: &Interval, limits_ns: &[u64]) {
        self.noise_ns = self.noise_ns.saturating_add(gap.dur_ns);
        self.max_gap_ns = self.max_gap_ns.max(gap.dur_ns);
        self.lengths.record(gap.dur_ns);
        if let Some(wakeup) = gap.wakeup() {
            if let Some(ns) = wakeup.irq_ns {
                self.irq.record(ns);
            }
            if let Some(ns) = wakeup.thread_ns {
                self.thread.record(ns);
            }
            self.missed = self.missed.saturating_add(wakeup.missed.into());
        }
        for (above, limit_ns) in self.above.iter_mut().zip(limits_ns) {
            *above += u64::from(gap.dur_ns > *limit_ns);
        }
        for part in &gap.parts {
            let share_ns = &mut self.shares_ns[part.share];
            *share_ns = share_ns.saturating_add(part.ns);
        }
    }

    fn close<'a>(&mut self, lines: impl Iterator<Item = &'a PeriodLine>) {
        for line in lines {
            let runtime_ns = line.runtime_ns.unwrap_or(0);
            self.runtime_ns = self.runtime_ns.saturating_add(runtime_ns);
            for (share, ns) in line.shares.iter() {
                self.known[share] &= ns.is_some();
            }
        }
    }
}

/// A run as it is compared.
#[derive(Debug)]
pub struct Sample {
    /// All of it.
    pub whole: Window,
    /// Its windows, in the order of time.
    pub windows: Vec<Window>,
    /// Length of each of them, nanoseconds.
    pub window_ns: u64,
    /// The gaps of each CPU; none unless [`Sampler::counting`] asked for them.
    pub(crate) cpus: BTreeMap<u32, Track>,
    /// For each limit that is counted, the number of cells with a gap above it, over all CPUs.
    pub(crate) bad_cells: Vec<u64>,
    /// What else is known of the run: what it lost, and how it ended.
    pub summary: Summary,
}

/// Gaps of a run, as a whole and window by window.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) whole: Window,
    pub(crate) windows: Vec<Window>,
    /// For each limit that is counted, the number of cells with a gap above it.
    pub(crate) bad_cells: Vec<u64>,
    open: Window,
    last_bad_cells: Vec<Option<u64>>,
}

impl Track {
    fn new(limits: usize) -> Track {
        Track {
            whole: Window::empty(limits),
            windows: Vec::new(),
            bad_cells: vec![0; limits],
            open: Window::empty(limits),
            last_bad_cells: vec![None; limits],
        }
    }

    fn add(&mut self, gap: &Interval, counted: &Counted) {
        self.open.add(gap, &counted.limits_ns);
        self.whole.add(gap, &counted.limits_ns);
        let cell = gap.start_mono_ns / counted.cell_ns;
        let cells = self.bad_cells.iter_mut().zip(&mut self.last_bad_cells);
        for ((bad, last), limit_ns) in cells.zip(&counted.limits_ns) {
            if gap.dur_ns > *limit_ns && last.replace(cell) != Some(cell) {
                *bad += 1;
            }
        }
    }

    /// Closes the window that is open, and opens the next.
    fn turn<'a>(&mut self, lines: impl Iterator<Item = &'a PeriodLine>) -> Window {
        let empty = Window::empty(self.bad_cells.len());
        let mut window = std::mem::replace(&mut self.open, empty);
        window.close(lines);
        let whole = &mut self.whole;
        whole.runtime_ns = whole.runtime_ns.saturating_add(window.runtime_ns);
        for (share, known) in window.known.iter() {
            whole.known[share] &= known;
        }
        window
    }
}

/// The gaps of which a sampler counts how many there are.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Lengths above which gaps are counted, in nanoseconds.
    pub(crate) limits_ns: Vec<u64>,
    /// Length of a cell in nanoseconds. Gaps that begin in one cell may be one burst.
    pub(crate) cell_ns: u64,
}

impl Counted {
    const NOTHING: Counted = Counted {
        limits_ns: Vec::new(),
        cell_ns: u64::MAX,
    };
}

/// Takes the events of one run.
#[derive(Debug)]
pub struct Sampler {
    explainer: Explainer,
    windows: Windows,
}

impl Sampler {
    /// Looks at gaps of at least `threshold_ns`, which is no less than that of the run, in
    /// windows of `window_ns`.
    pub fn new(facts: &RunFacts, threshold_ns: u64, window_ns: u64) -> Sampler {
        Sampler {
            explainer: Explainer::new(facts),
            windows: Windows::new(threshold_ns, window_ns),
        }
    }

    /// Counts these gaps, and also takes each CPU by itself; called before the first event.
    pub(crate) fn counting(self, counted: Counted) -> Sampler {
        Sampler {
            windows: self.windows.counting(counted),
            ..self
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        let Self { explainer, windows } = self;
        explainer.push(event, &mut |gap| windows.add(gap));
        if let Event::Watermark(mono_ns) = *event {
            windows.reach(mono_ns, || explainer.take_heard_period());
        }
    }

    /// What was begun after the last whole window is in no window.
    pub fn finish(mut self) -> Sample {
        let windows = &mut self.windows;
        self.explainer.run_out(&mut |gap| windows.add(gap));
        let lines = self.explainer.take_heard_period();
        self.windows.finish(lines, self.explainer.finish())
    }
}

/// A run while it is cut.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Gaps below are not looked at.
    threshold_ns: u64,
    window_ns: u64,
    /// CLOCK_MONOTONIC in nanoseconds; `None` before the first watermark.
    window_end_ns: Option<u64>,
    all: Track,
    counted: Counted,
    is_by_cpu: bool,
    cpus: BTreeMap<u32, Track>,
}

impl Windows {
    /// As [`Sampler::new`].
    pub(crate) fn new(threshold_ns: u64, window_ns: u64) -> Windows {
        Windows {
            threshold_ns,
            window_ns: window_ns.max(1),
            window_end_ns: None,
            all: Track::new(0),
            counted: Counted::NOTHING,
            is_by_cpu: false,
            cpus: BTreeMap::new(),
        }
    }

    /// As [`Sampler::counting`].
    pub(crate) fn counting(mut self, counted: Counted) -> Windows {
        self.all = Track::new(counted.limits_ns.len());
        self.counted = counted;
        self.is_by_cpu = true;
        self
    }

    /// Takes the next gap.
    pub(crate) fn add(&mut self, gap: &Interval) {
        if gap.dur_ns < self.threshold_ns {
            return;
        }
        self.all.add(gap, &self.counted);
        if self.is_by_cpu {
            let track = track_of(&mut self.cpus, gap.cpu, &self.all);
            track.add(gap, &self.counted);
        }
    }

    /// The stream has a watermark. Where a window ends by it, `lines` says what else there is of the time since the
    /// window before.
    pub(crate) fn reach(&mut self, mono_ns: u64, lines: impl FnOnce() -> Vec<PeriodLine>) {
        let first_end_ns = mono_ns.saturating_add(self.window_ns);
        let end_ns = *self.window_end_ns.get_or_insert(first_end_ns);
        if let Some(late_ns) = mono_ns.checked_sub(end_ns) {
            let window = self.turn(&lines());
            self.all.windows.push(window);
            // A stream may have stood still for longer than a window.
            let past_ns = (late_ns / self.window_ns + 1).saturating_mul(self.window_ns);
            self.window_end_ns = Some(end_ns.saturating_add(past_ns));
        }
    }

    /// The run, of which `lines` are the rest.
    pub(crate) fn finish(mut self, lines: Vec<PeriodLine>, summary: Summary) -> Sample {
        self.turn(&lines);
        let windows = self.all.windows.len();
        for track in self.cpus.values_mut() {
            // What was begun after the last whole window is in no window.
            track.windows.truncate(windows);
        }
        Sample {
            whole: self.all.whole,
            windows: self.all.windows,
            window_ns: self.window_ns,
            cpus: self.cpus,
            bad_cells: self.all.bad_cells,
            summary,
        }
    }

    /// Closes the windows that are open, and opens the next.
    fn turn(&mut self, lines: &[PeriodLine]) -> Window {
        for line in lines.iter().filter(|_| self.is_by_cpu) {
            track_of(&mut self.cpus, line.cpu, &self.all);
        }
        for (cpu, track) in &mut self.cpus {
            let window = track.turn(lines.iter().filter(|line| line.cpu == *cpu));
            track.windows.push(window);
        }
        self.all.turn(lines.iter())
    }
}

/// Returns the track of a CPU. A new one has had nothing in the windows before.
fn track_of<'a>(cpus: &'a mut BTreeMap<u32, Track>, cpu: u32, all: &Track) -> &'a mut Track {
    cpus.entry(cpu).or_insert_with(|| {
        let limits = all.bad_cells.len();
        let empty = std::iter::repeat_with(|| Window::empty(limits));
        let mut track = Track::new(limits);
        track.windows.extend(empty.take(all.windows.len()));
        track
    })
}
