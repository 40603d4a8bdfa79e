//! Recordings with any number of gaps or CPUs.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::{RecordingReader, Writer};

use crate::join_pair::facts;

const BEGIN_NS: u64 = 2_000_000_000;
const EVERY_NS: u64 = 20_000;

const INTERRUPT: SourceId = SourceId(0);
const TASK: SourceId = SourceId(1);

/// Recording that is being written: one clock, and an interrupt and a task that cause gaps.
struct Stream {
    writer: Writer<File>,
    cpus: Vec<u32>,
    /// Unobserved time of its workload so far, nanoseconds.
    blind_ns: u64,
    /// Number of cycles by which the TSC is ahead of the time in nanoseconds.
    ahead_tsc: u64,
}

impl Stream {
    fn new(path: &Path, cpus: u32) -> Stream {
        Stream::begun(path, cpus, 0)
    }

    /// Begins a recording whose run starts `seconds` after the first possible one.
    fn begun(path: &Path, cpus: u32, seconds: u64) -> Stream {
        Stream::of(path, (0..cpus).collect(), seconds, |_| {})
    }

    /// Begins a recording of these CPUs, with changed facts.
    fn of(path: &Path, cpus: Vec<u32>, seconds: u64, change: impl FnOnce(&mut RunFacts)) -> Stream {
        let mut facts = facts(MeasuringCommand::Osnoise);
        // Each file is a run of its own, and no two start in the same microsecond.
        let name = path.file_name().unwrap().as_encoded_bytes();
        let nth: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
        facts.started_at = format!("2026-01-01T00:00:{seconds:02}.{nth:05}1Z").into();
        facts.options.cpus = cpus.clone();
        change(&mut facts);
        let writer = Writer::create(path, &facts).unwrap();
        let mut stream = Stream {
            writer,
            cpus,
            blind_ns: 0,
            ahead_tsc: 0,
        };
        for (id, name) in [(INTERRUPT, "local_timer:236"), (TASK, "ksmd:31")] {
            stream.push(Event::Source(Source {
                id,
                name: name.into(),
            }));
        }
        stream
    }

    fn push(&mut self, event: Event) {
        self.writer.push(&event).unwrap();
    }

    /// Writes a time; later events are not much earlier than this.
    fn time(&mut self, now_ns: u64) {
        self.push(Event::Anchor(Anchor {
            before_tsc: now_ns - 30 + self.ahead_tsc,
            mono_ns: now_ns - 30,
            after_tsc: now_ns + self.ahead_tsc,
        }));
        for cpu in self.cpus.clone() {
            self.push(Event::Tally(CpuTally {
                cpu,
                first_tsc: BEGIN_NS,
                last_tsc: now_ns + self.ahead_tsc,
                blind_tsc: Some(self.blind_ns),
                ..CpuTally::default()
            }));
        }
        self.push(Event::Watermark(now_ns - EVERY_NS));
    }

    fn gap(&mut self, cpu: u32, start_ns: u64, length_ns: u64) {
        self.push(Event::Gap(Gap {
            cpu,
            start_tsc: start_ns + self.ahead_tsc,
            end_tsc: start_ns + length_ns + self.ahead_tsc,
            steal_ns: 0,
            reloads: 0,
            light_exits: 0,
            heavy_exits: 0,
            interference: None,
            run_delay_ns: 0,
        }));
    }

    /// Writes a gap that the interrupt caused.
    fn interrupted(&mut self, cpu: u32, start_ns: u64, length_ns: u64) {
        self.taken(cpu, ActivityKind::Irq, INTERRUPT, start_ns, length_ns);
    }

    fn taken(
        &mut self,
        cpu: u32,
        kind: ActivityKind,
        source: SourceId,
        start_ns: u64,
        length_ns: u64,
    ) {
        self.push(Event::Activity(Activity {
            cpu,
            kind,
            start_mono_ns: start_ns + 100,
            end_mono_ns: start_ns + length_ns - 100,
            source,
            steal_ns: 0,
        }));
        self.gap(cpu, start_ns, length_ns);
    }

    /// Writes ticks of CPU 0, and returns the time after the last one.
    fn ticks(&mut self, ticks: std::ops::Range<u64>) -> u64 {
        for nth in ticks.clone() {
            let from_ns = BEGIN_NS + nth * RARE_EVERY_NS;
            self.time(from_ns);
            self.interrupted(0, from_ns + 1_000, SHORT_TICK_NS);
        }
        BEGIN_NS + ticks.end * RARE_EVERY_NS
    }

    fn finish(self, now_ns: u64) {
        self.finish_for(FinishReason::Duration, now_ns);
    }

    fn finish_for(mut self, reason: FinishReason, now_ns: u64) {
        self.push(Event::Anchor(Anchor {
            before_tsc: now_ns + self.ahead_tsc,
            mono_ns: now_ns,
            after_tsc: now_ns + 30 + self.ahead_tsc,
        }));
        let mono_ns = now_ns;
        self.push(Event::Finish(Finish { reason, mono_ns }));
        self.writer.finish().unwrap();
    }
}

/// Writes a copy of a recording with changed facts.
pub fn copy_with(recording: &Path, copy: &Path, change: impl FnOnce(&mut RunFacts)) {
    let mut reader = RecordingReader::open(recording).unwrap();
    let mut facts = reader.facts().clone();
    change(&mut facts);
    let mut writer = Writer::create(copy, &facts).unwrap();
    while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
}

/// Writes a recording of `gaps` gaps on two CPUs, each caused by an interrupt. Every `peak_every`th
/// gap is longer than the others, and these lengths all differ. Returns their lengths.
pub fn write(path: &Path, gaps: u64, peak_every: u64) -> Vec<u64> {
    write_gaps(Stream::new(path, 2), gaps, peak_every)
}

/// Writes the part of [`write`] for one of its CPUs, as the rank with this number records it.
pub fn write_rank(path: &Path, gaps: u64, peak_every: u64, rank: u32) {
    write_gaps(
        Stream::of(path, vec![rank], 0, |facts| facts.rank = Some(rank)),
        gaps,
        peak_every,
    );
}

fn write_gaps(mut stream: Stream, gaps: u64, peak_every: u64) -> Vec<u64> {
    let mut peaks = Vec::new();
    for nth in 0..gaps {
        let start_ns = BEGIN_NS + nth * EVERY_NS;
        if nth % 1_000 == 0 {
            stream.time(start_ns);
        }
        let length_ns = match nth % peak_every {
            0 => {
                peaks.push(9_000 + nth / peak_every);
                9_000 + nth / peak_every
            }
            // Irregular, and shorter.
            _ => 1_000 + nth * nth * 7_919 % 4_000,
        };
        let cpu = (nth % 2) as u32;
        if stream.cpus.contains(&cpu) {
            stream.interrupted(cpu, start_ns, length_ns);
        }
    }
    stream.finish(BEGIN_NS + gaps * EVERY_NS);
    peaks
}

/// CPU with a periodic disturbance, and its period.
pub const BEAT_CPU: u32 = 77;
pub const BEAT_EVERY_NS: u64 = 4_000_000;

/// Writes two seconds of `cpus` CPUs. Each is interrupted at times of its own; a higher number
/// means longer interrupts. One of them has a disturbance of unknown origin, partly periodic and
/// partly not.
pub fn write_cpus(path: &Path, cpus: u32) {
    const STEPS: u64 = 500;
    let mut stream = Stream::new(path, cpus);
    for step in 0..STEPS {
        let from_ns = BEGIN_NS + step * BEAT_EVERY_NS;
        stream.time(from_ns);
        if cpus > BEAT_CPU {
            stream.gap(BEAT_CPU, from_ns + 1_000_000, 30_000);
            let anywhere_ns = step * step * 7_919 % 600 * 4_000;
            stream.gap(BEAT_CPU, from_ns + 1_200_000 + anywhere_ns, 4_000);
        }
        for cpu in (0..cpus).filter(|cpu| *cpu != BEAT_CPU) {
            // The lengths form waves over CPUs and time.
            let wave = (step + u64::from(cpu) * 3) % 100;
            let length_ns = 2_000 + u64::from(cpu) * 100 + wave * wave * 20;
            stream.interrupted(cpu, from_ns + 10_000 * u64::from(cpu), length_ns);
        }
    }
    stream.finish(BEGIN_NS + STEPS * BEAT_EVERY_NS);
}

/// Time that an interrupt takes at the beginning of each millisecond.
pub const TICK_NS: u64 = 50_000;
/// Time that a task takes each tenth of a second, in the middle of a millisecond.
pub const TURN_NS: u64 = 400_000;
/// Interval at which the counters are read.
pub const BLIND_EVERY_NS: u64 = 10_000_000;

/// Writes `milliseconds` ms of one CPU with a periodic interrupt and a periodic task. Runs of
/// different lengths begin at different times.
pub fn write_by_the_clock(path: &Path, milliseconds: u64) {
    write_blind_now_and_then(path, milliseconds, 0);
}

/// Writes the same with a threshold that the interrupt's gaps do not reach.
pub fn write_only_turns(path: &Path, milliseconds: u64, threshold_ns: u64) {
    let seconds = milliseconds % 60;
    let mut stream = Stream::of(path, vec![0], seconds, |facts| {
        facts.options.threshold_ns = threshold_ns;
    });
    for at_ms in (5..milliseconds).step_by(100) {
        let at_ns = BEGIN_NS + at_ms * 1_000_000;
        stream.time(at_ns);
        stream.taken(0, ActivityKind::Thread, TASK, at_ns + 500_000, TURN_NS);
    }
    let end_ns = BEGIN_NS + milliseconds * 1_000_000;
    stream.time(end_ns);
    stream.finish(end_ns);
}

/// Writes the same with `blind_ns` of unobserved time in each [`BLIND_EVERY_NS`].
pub fn write_blind_now_and_then(path: &Path, milliseconds: u64, blind_ns: u64) {
    let mut stream = Stream::begun(path, 1, milliseconds % 60);
    for nth in 0..milliseconds {
        let now_ns = BEGIN_NS + nth * 1_000_000;
        if nth * 1_000_000 % BLIND_EVERY_NS == 0 {
            stream.time(now_ns);
            stream.blind_ns += blind_ns;
        }
        stream.interrupted(0, now_ns, TICK_NS);
        if nth % 100 == 5 {
            let at_ns = now_ns + 500_000;
            stream.taken(0, ActivityKind::Thread, TASK, at_ns, TURN_NS);
        }
    }
    let end_ns = BEGIN_NS + milliseconds * 1_000_000;
    stream.time(end_ns);
    stream.finish(end_ns);
}

/// Values of `write_rare_task`: the interrupt comes every 4 ms, and a turn of the task is much
/// longer.
const RARE_EVERY_NS: u64 = 4_000_000;
pub const SHORT_TICK_NS: u64 = 5_000;
pub const RARE_EVERY: u64 = 150;
pub const RARE_NS: u64 = 300_000;

/// Writes `ticks` ticks of one CPU; a turn of the task follows every 150th, if `with_task`.
pub fn write_rare_task(path: &Path, ticks: u64, with_task: bool) {
    let mut stream = Stream::new(path, 1);
    for nth in 0..ticks {
        let from_ns = BEGIN_NS + nth * RARE_EVERY_NS;
        stream.time(from_ns);
        stream.interrupted(0, from_ns + 1_000, SHORT_TICK_NS);
        if with_task && nth % RARE_EVERY == 7 {
            let at_ns = from_ns + 1_234_567;
            stream.taken(0, ActivityKind::Thread, TASK, at_ns, RARE_NS);
        }
    }
    let end_ns = BEGIN_NS + ticks * RARE_EVERY_NS;
    stream.time(end_ns);
    stream.finish(end_ns);
}

/// Writes `gaps` gaps of one CPU, 10 ms apart. The lengths grow by 15 % from one to the next longer
/// one, and the long gaps are spread over the run. `gaps` must not be a multiple of seven.
pub fn write_unlike(path: &Path, gaps: u64) {
    const UNLIKE_EVERY_NS: u64 = 10_000_000;
    let mut stream = Stream::new(path, 1);
    for nth in 0..gaps {
        let from_ns = BEGIN_NS + nth * UNLIKE_EVERY_NS;
        let length_ns = 2_000.0 * 1.15_f64.powi((nth * 7 % gaps) as i32);
        stream.time(from_ns);
        stream.interrupted(0, from_ns + 1_000, length_ns as u64);
    }
    let end_ns = BEGIN_NS + gaps * UNLIKE_EVERY_NS;
    stream.time(end_ns);
    stream.finish(end_ns);
}

/// Writes `gaps` gaps of one CPU at independent times, 0.5 ms apart on average, of 2 to 38 us.
pub fn write_irregular(path: &Path, gaps: u64) {
    let mut stream = Stream::new(path, 1);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    // Marsaglia's xorshift.
    let mut below = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    let mut now_ns = BEGIN_NS;
    for nth in 0..gaps {
        if nth % 100 == 0 {
            stream.time(now_ns);
        }
        now_ns += 1_000 + below(960_000);
        let length_ns = 2_000 + below(36_000);
        stream.interrupted(0, now_ns, length_ns);
        now_ns += length_ns;
    }
    stream.time(now_ns + EVERY_NS);
    stream.finish(now_ns + EVERY_NS);
}

/// Writes a run of one CPU that consists of one gap.
pub fn write_taken_all_the_time(path: &Path, length_ns: u64) {
    let mut stream = Stream::new(path, 1);
    stream.time(BEGIN_NS);
    let end_ns = BEGIN_NS + length_ns;
    stream.taken(0, ActivityKind::Thread, TASK, BEGIN_NS, length_ns);
    stream.time(end_ns);
    stream.finish(end_ns);
}

/// Number of ticks of each of the following recordings.
const TICKS: u64 = 600;

/// Writes ticks of one CPU. In the middle the TSC jumps ahead by 10 s, as in a guest that was
/// paused.
pub fn write_jumping(path: &Path) {
    let mut stream = Stream::new(path, 1);
    stream.ticks(0..TICKS / 2);
    stream.ahead_tsc = 10_000_000_000;
    let end_ns = stream.ticks(TICKS / 2..TICKS);
    stream.time(end_ns);
    stream.finish(end_ns);
}

/// Writes ticks of one CPU. Then the workload ends by itself.
pub fn write_failing(path: &Path) {
    let mut stream = Stream::new(path, 1);
    let end_ns = stream.ticks(0..TICKS);
    stream.time(end_ns);
    stream.finish_for(FinishReason::Failed, end_ns);
}

/// Writes ticks of one CPU. Another CPU was to be measured, but never reports.
pub fn write_half_silent(path: &Path) {
    let mut stream = Stream::of(path, vec![0], 0, |facts| facts.options.cpus = vec![0, 1]);
    let end_ns = stream.ticks(0..TICKS);
    stream.time(end_ns);
    stream.finish(end_ns);
}

/// Writes ticks of one CPU, and no end of the run: the recorder was killed.
pub fn write_cut_off(path: &Path) {
    let mut stream = Stream::new(path, 1);
    let end_ns = stream.ticks(0..TICKS);
    stream.time(end_ns);
    stream.writer.flush().unwrap();
}

/// Writes a damaged recording of one CPU. In each millisecond, gaps take 960 us, and 45 us were not
/// observed: together more than the millisecond.
pub fn write_damaged(path: &Path) {
    let mut stream = Stream::new(path, 1);
    let mut now_ns = BEGIN_NS;
    for _ in 0..1_000 {
        stream.time(now_ns);
        stream.interrupted(0, now_ns + 1_000, 960_000);
        stream.blind_ns += 45_000;
        now_ns += 1_000_000;
    }
    stream.time(now_ns);
    stream.finish(now_ns);
}
