//! Samples of a run that is cut into windows.

use std::collections::BTreeMap;

use vmnoise_events::{Event, RunFacts, Share, ShareMap};

use vmnoise_explain::Explainer;
use vmnoise_explain::Interval;
use vmnoise_explain::Lengths;
use vmnoise_explain::PeriodLine;
use vmnoise_explain::Summary;

/// Gaps or wake-ups in a part of a run, on all measured CPUs. The sums of each CPU fit into a u64.
/// Their total saturates, but only an invented stream reaches this.
#[derive(Debug)]
pub struct Window {
    /// Sum of the runtime of all workloads, in nanoseconds.
    pub runtime_ns: u64,
    /// Sum of the gaps, or of the latencies from expiry to user space, in nanoseconds.
    pub noise_ns: u64,
    /// Longest gap or latency, in nanoseconds; 0 if there is none.
    pub max_gap_ns: u64,
    pub(crate) lengths: Lengths,
    /// Latencies of wake-ups from the expiry to the timer's interrupt.
    pub(super) irq: Latencies,
    /// Latencies of wake-ups from the expiry to the switch to the task.
    pub(super) thread: Latencies,
    /// Number of expiries that passed before a task could wait for them.
    pub(super) missed: u64,
    /// For each counted limit: number of gaps or wake-ups that exceed it.
    pub above: Vec<u64>,
    shares_ns: ShareMap<u64>,
    known: ShareMap<bool>,
}

/// Latencies of tasks up to one point of the wake-up.
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

    /// Returns the latency that `rank` of every 10,000 latencies do not exceed, in nanoseconds.
    /// `None` without latencies.
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

    /// Returns the time of a share, in nanoseconds; `None` if it is unknown on at least one CPU.
    pub fn share_ns(&self, share: Share) -> Option<u64> {
        self.known[share].then_some(self.shares_ns[share])
    }

    /// Returns the known time of a share, in nanoseconds. The share's full time may be longer.
    pub(crate) fn booked_ns(&self, share: Share) -> u64 {
        self.shares_ns[share]
    }

    /// Returns the length, in nanoseconds, that `rank` of every 10,000 gaps or latencies to user
    /// space do not exceed. Three digits of the length are exact, and the maximum is exact. `None`
    /// without gaps and latencies.
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

/// Figures of a run and its windows, for a comparison.
#[derive(Debug)]
pub struct RunSample {
    /// Figures of the whole run.
    pub whole: Window,
    /// Figures of the windows, in the order of time.
    pub windows: Vec<Window>,
    /// Length of each window, in nanoseconds.
    pub window_ns: u64,
    /// Gaps of each CPU, by its number. Empty unless [`Sampler::counting`] was called.
    pub(crate) cpus: BTreeMap<u32, Track>,
    /// For each counted limit: number of cells, over all CPUs, with a gap above the limit.
    pub(crate) bad_cells: Vec<u64>,
    /// Other facts about the run, such as the number of lost records and the reason of its end.
    pub summary: Summary,
}

/// Gaps of a run or of one CPU: in total and by window.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) whole: Window,
    pub(crate) windows: Vec<Window>,
    /// For each counted limit: number of cells with a gap above the limit.
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

    /// Closes the open window, and opens the next one. Returns the closed window.
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

/// Limits above which a sampler counts gaps.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Lengths above which gaps are counted, in nanoseconds.
    pub(crate) limits_ns: Vec<u64>,
    /// Length of a cell in nanoseconds. Gaps that begin in the same cell may be one burst.
    pub(crate) cell_ns: u64,
}

impl Counted {
    const NOTHING: Counted = Counted {
        limits_ns: Vec::new(),
        cell_ns: u64::MAX,
    };
}

/// Computes a [`RunSample`] from the events of one run.
#[derive(Debug)]
pub struct Sampler {
    explainer: Explainer,
    windows: Windows,
}

impl Sampler {
    /// Starts with windows of `window_ns`. Gaps shorter than `threshold_ns` are ignored. The
    /// threshold must be at least that of the run.
    pub fn new(facts: &RunFacts, threshold_ns: u64, window_ns: u64) -> Sampler {
        Sampler {
            explainer: Explainer::new(facts),
            windows: Windows::new(threshold_ns, window_ns),
        }
    }

    /// Counts gaps above these limits, and also samples each CPU separately. Call this before the
    /// first event.
    pub(crate) fn counting(self, counted: Counted) -> Sampler {
        Sampler {
            windows: self.windows.counting(counted),
            ..self
        }
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        let Self { explainer, windows } = self;
        explainer.push(event, &mut |gap| windows.add(gap));
        if let Event::Watermark(mono_ns) = *event {
            windows.reach(mono_ns, || explainer.take_heard_period());
        }
    }

    /// Returns the sample. Data after the last complete window are in no window.
    pub fn finish(mut self) -> RunSample {
        let windows = &mut self.windows;
        self.explainer.run_out(&mut |gap| windows.add(gap));
        let lines = self.explainer.take_heard_period();
        self.windows.finish(lines, self.explainer.finish())
    }
}

/// Windows of a run. They are filled while data arrive.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Threshold in nanoseconds. Shorter gaps are ignored.
    threshold_ns: u64,
    window_ns: u64,
    /// End of the open window, CLOCK_MONOTONIC in nanoseconds; `None` before the first watermark.
    window_end_ns: Option<u64>,
    all: Track,
    counted: Counted,
    is_by_cpu: bool,
    cpus: BTreeMap<u32, Track>,
}

impl Windows {
    /// Starts without windows. The arguments are those of [`Sampler::new`].
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

    /// Counts gaps above these limits, as [`Sampler::counting`] does.
    pub(crate) fn counting(mut self, counted: Counted) -> Windows {
        self.all = Track::new(counted.limits_ns.len());
        self.counted = counted;
        self.is_by_cpu = true;
        self
    }

    /// Adds the next gap.
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

    /// Adds a watermark of the stream. If the watermark ends a window, calls `lines`, which returns
    /// the other data since the end of the window before.
    pub(crate) fn reach(&mut self, mono_ns: u64, lines: impl FnOnce() -> Vec<PeriodLine>) {
        let first_end_ns = mono_ns.saturating_add(self.window_ns);
        let end_ns = *self.window_end_ns.get_or_insert(first_end_ns);
        if let Some(late_ns) = mono_ns.checked_sub(end_ns) {
            let window = self.turn(&lines());
            self.all.windows.push(window);
            // The stream may have paused for longer than a window.
            let past_ns = (late_ns / self.window_ns + 1).saturating_mul(self.window_ns);
            self.window_end_ns = Some(end_ns.saturating_add(past_ns));
        }
    }

    /// Returns the sample of the run. `lines` are the last data of the run.
    pub(crate) fn finish(mut self, lines: Vec<PeriodLine>, summary: Summary) -> RunSample {
        self.turn(&lines);
        let windows = self.all.windows.len();
        for track in self.cpus.values_mut() {
            // Data after the last complete window are in no window.
            track.windows.truncate(windows);
        }
        RunSample {
            whole: self.all.whole,
            windows: self.all.windows,
            window_ns: self.window_ns,
            cpus: self.cpus,
            bad_cells: self.all.bad_cells,
            summary,
        }
    }

    /// Closes the open windows, and opens the next ones. Returns the closed window of all CPUs
    /// together.
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

/// Returns the track of a CPU. A new track gets an empty window for each window that has already
/// ended.
fn track_of<'a>(cpus: &'a mut BTreeMap<u32, Track>, cpu: u32, all: &Track) -> &'a mut Track {
    cpus.entry(cpu).or_insert_with(|| {
        let limits = all.bad_cells.len();
        let empty = std::iter::repeat_with(|| Window::empty(limits));
        let mut track = Track::new(limits);
        track.windows.extend(empty.take(all.windows.len()));
        track
    })
}
