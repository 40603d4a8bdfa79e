//! Path from events to output. Live probes and recordings use the same path, so both give the same
//! summary.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use vmnoise_console::write_behind::WriteBehind;
use vmnoise_events::{Event, HostCulprit, RunFacts, VcpuId};
use vmnoise_explain::{Interval, PeriodLine};
use vmnoise_recording::Writer;
use vmnoise_views::{
    AtStop, CpusResult, FeedReport, GapKey, News, OuterStealAdvance, Period, RecentTrace,
    ResultPart, ResultView, VcpusResult, Watcher,
};

use super::explaining::{ExplainedRun, Explaining};
use super::recorder::{FinishedRecording, Recorder};
use super::shown::TerminalView;
use crate::feed::sender::Culprits;

/// Session of a run: explains its events, shows the results, and records the events if asked.
pub struct Session<'a> {
    explaining: Explaining,
    sinks: Sinks<'a>,
    recorder: Recorder,
    /// First and last clock reading, CLOCK_MONOTONIC in nanoseconds.
    span_ns: Option<(u64, u64)>,
    feeds: Vec<FeedReport>,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("explaining", &self.explaining)
            .finish_non_exhaustive()
    }
}

/// Receivers of explained events.
struct Sinks<'a> {
    shown: TerminalView<'a>,
    trace: RecentTrace,
    /// Sums by culprit, if guests receive names.
    culprits: Option<Culprits>,
    /// Earliest gap or late wake-up that hit a limit since the last call of `take_limit_hit`.
    stop_hit: Option<GapKey>,
    /// Earliest gap or late wake-up of the run that hit a limit, among those explained so far.
    first_hit: Option<Interval>,
}

/// Outcome of a run.
#[derive(Debug)]
pub struct SessionOutcome {
    /// Explained result.
    pub explained: ExplainedRun,
    /// Last lines of the trace, if the view wanted them.
    pub trace: RecentTrace,
    /// Measured time, by the clock readings in the stream.
    pub measured: Duration,
    /// Reports on the feeds to guests.
    pub feeds: Vec<FeedReport>,
    /// Recording, which the disk may not have completely yet.
    pub recorded: FinishedRecording,
}

impl<'a> Session<'a> {
    /// Creates a session for this run; `writer` has written the facts already.
    pub fn new(
        facts: &RunFacts,
        writer: Option<Writer<WriteBehind>>,
        shown: TerminalView<'a>,
    ) -> Session<'a> {
        Session {
            explaining: Explaining::new(facts, shown.keeps_trace()),
            sinks: Sinks {
                shown,
                trace: RecentTrace::of(facts.workload),
                culprits: None,
                stop_hit: None,
                first_hit: None,
            },
            recorder: Recorder::new(writer),
            span_ns: None,
            feeds: Vec::new(),
        }
    }

    /// Explains one event, and records it if a recording was asked for.
    pub fn accept(&mut self, event: &Event) {
        if self.recorder.is_recording() {
            self.recorder.push(event);
            self.report_recorder();
        }
        if let Event::Anchor(anchor) = event {
            let (first_ns, _) = self.span_ns.unwrap_or((anchor.mono_ns, 0));
            self.span_ns = Some((first_ns, anchor.mono_ns));
        }
        let sinks = &mut self.sinks;
        self.explaining.push(event, &mut |news| sinks.see(news));
    }

    /// Hands the recorded data to the writing thread. Data that this thread has written survive the
    /// end of this process.
    pub fn flush(&mut self) {
        self.recorder.flush();
        self.report_recorder();
    }

    fn report_recorder(&mut self) {
        if let Some(news) = self.recorder.take_news() {
            self.sinks.shown.notice(&news);
        }
    }

    /// Returns the views of the run.
    pub fn shown(&mut self) -> &mut TerminalView<'a> {
        &mut self.sinks.shown
    }

    /// Returns whether a limit was hit since the last call. `of_period` says whether the limit of a
    /// whole period was hit. If a gap hit its limit, the saved trace ends with this gap.
    pub fn take_limit_hit(&mut self, of_period: bool) -> bool {
        let gap = self.sinks.stop_hit.take();
        let hit = of_period || gap.is_some();
        if hit {
            self.sinks.trace.save_up_to(gap);
        }
        hit
    }

    /// Returns the earliest gap or late wake-up that hit a limit, among those explained so far.
    pub fn first_hit(&self) -> Option<&Interval> {
        self.sinks.first_hit.as_ref()
    }

    /// Stores the evidence of the instant at which a limit was hit.
    pub fn keep_at_stop(&mut self, at_stop: AtStop) {
        self.sinks.trace.keep_at_stop(at_stop);
    }

    /// Returns the last lines of the trace so far.
    pub fn recent_trace(&self) -> &RecentTrace {
        &self.sinks.trace
    }

    /// Ends a period and shows it. Returns the time taken from each CPU; empty for a run over
    /// vCPUs.
    pub fn period(
        &mut self,
        since_start: Duration,
        outer_steal: &OuterStealAdvance,
    ) -> Vec<PeriodLine> {
        let measured = self.measured();
        let shown = &mut self.sinks.shown;
        match &mut self.explaining {
            Explaining::Cpus(explainer) => {
                let lines = explainer.take_period();
                let period = Period {
                    since_start,
                    lines: &lines,
                    outer_steal,
                    longest: explainer.longest_so_far(),
                    explainer,
                };
                shown.see(News::Period(&period));
                lines
            }
            Explaining::Vcpus(exits) => {
                shown.see(News::ExitsPeriod { measured, exits });
                Vec::new()
            }
        }
    }

    /// Begins to sum up each vCPU's lost time by culprit, for [`Self::culprits`].
    pub fn sum_culprits(&mut self) {
        self.sinks.culprits = Some(Culprits::default());
    }

    /// Returns the culprits of this vCPU so far, in descending order of their time.
    pub fn culprits(&self, vcpu: VcpuId) -> Vec<HostCulprit> {
        let culprits = self.sinks.culprits.iter();
        let named = culprits.flat_map(|sums| sums.of(vcpu, |id| self.explaining.source_name(id)));
        named.collect()
    }

    /// Stores the reports on the feeds.
    pub fn report_feeds(&mut self, feeds: Vec<FeedReport>) {
        self.feeds = feeds;
    }

    fn measured(&self) -> Duration {
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        Duration::from_nanos(last_ns.saturating_sub(first_ns))
    }

    /// Ends the session: explains the pending events and ends the recording.
    pub fn finish(mut self) -> SessionOutcome {
        let measured = self.measured();
        let sinks = &mut self.sinks;
        self.explaining.run_out(&mut |news| sinks.see(news));
        let explained = self.explaining.finish();
        let mut trace = self.sinks.trace;
        trace.save_up_to(explained.stopped_by());
        SessionOutcome {
            explained,
            trace,
            measured,
            feeds: self.feeds,
            recorded: self.recorder.finish(),
        }
    }
}

impl Sinks<'_> {
    fn see(&mut self, news: News<'_>) {
        match news {
            News::Interval(interval) => {
                self.shown.see(news);
                self.see_limit(interval);
            }
            News::Exit(exit) => {
                if let Some(culprits) = &mut self.culprits {
                    culprits.add(exit);
                }
            }
            News::Trace(lines) => {
                self.shown.see(news);
                lines.iter().for_each(|line| self.trace.push(line.clone()));
            }
            _ => self.shown.see(news),
        }
    }

    fn see_limit(&mut self, interval: &Interval) {
        if interval.hits_limit {
            let key = (interval.start_mono_ns, interval.cpu);
            self.stop_hit = Some(self.stop_hit.map_or(key, |first| first.min(key)));
            let first = self.first_hit.as_ref();
            if first.is_none_or(|first| key < (first.start_mono_ns, first.cpu)) {
                self.first_hit = Some(interval.clone());
            }
        }
    }
}

impl SessionOutcome {
    /// Prints the result.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub fn print(&self, facts: &RunFacts, view: &mut dyn ResultView) -> Result<()> {
        view.print(match &self.explained {
            ExplainedRun::Cpus(summary) => ResultPart::Cpus(CpusResult {
                facts,
                summary,
                trace: &self.trace,
            }),
            ExplainedRun::Vcpus(run) => ResultPart::Vcpus(VcpusResult {
                facts,
                measured: self.measured,
                run,
                feeds: &self.feeds,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::fs::File;

    use vmnoise_events::{
        Activity, ActivityKind, Anchor, Finish, FinishReason, Gap, Source, SourceId, fixtures,
    };
    use vmnoise_recording::RecordingReader;
    use vmnoise_views::{Meanwhile, ViewPlan, trace_line};

    use super::*;
    use crate::recorder;

    /// View that prints the trace into memory.
    #[derive(Default)]
    struct Memory(String);

    impl Watcher for Memory {
        fn see(&mut self, news: News<'_>) {
            if let News::Trace(lines) = news {
                self.0.extend(lines.iter().map(trace_line::render));
            }
        }

        fn ends(&self) -> Option<FinishReason> {
            None
        }
    }

    impl ResultView for Memory {
        fn plan(&self) -> ViewPlan {
            ViewPlan {
                keeps_trace: true,
                meanwhile: Meanwhile::Own,
            }
        }

        fn print(&mut self, _part: ResultPart<'_>) -> Result<()> {
            Ok(())
        }
    }

    fn activity(kind: ActivityKind, start_mono_ns: u64, end_mono_ns: u64, id: u32) -> Event {
        Event::Activity(Activity {
            cpu: 16,
            kind,
            start_mono_ns,
            end_mono_ns,
            source: SourceId(id),
            steal_ns: 0,
        })
    }

    /// Returns the sample of the osnoise paper 49 times. The stream ends before a watermark makes
    /// the last sample certain.
    fn events() -> Vec<Event> {
        let names = ["eno1:62", "ksoftirqd/16:129"];
        let mut events: Vec<Event> = (0..)
            .zip(names)
            .map(|(id, name)| {
                let name = name.into();
                Event::Source(Source {
                    id: SourceId(id),
                    name,
                })
            })
            .collect();
        let anchor = |at| {
            Event::Anchor(Anchor {
                before_tsc: at,
                mono_ns: at,
                after_tsc: at,
            })
        };
        events.push(anchor(0));
        for start in (1..50).map(|turn| turn * 20_000_000) {
            events.extend([
                anchor(start + 1_000_000),
                activity(ActivityKind::Irq, start + 1_000, start + 3_204, 0),
                activity(ActivityKind::Thread, start + 4_000, start + 49_816, 1),
                Event::Gap(Gap {
                    cpu: 16,
                    start_tsc: start,
                    end_tsc: start + 50_946,
                    steal_ns: 0,
                    reloads: 0,
                    light_exits: 0,
                    heavy_exits: 0,
                    interference: None,
                    run_delay_ns: 0,
                }),
                Event::Watermark(start),
            ]);
        }
        events
    }

    #[test]
    fn live_and_from_a_recording_the_trace_is_the_same() {
        let facts = fixtures::polling_facts();
        for finish in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.vmn");
            let writer = recorder::begin(File::create(&path).unwrap(), &facts).unwrap();
            let mut live = Memory::default();
            let mut session =
                Session::new(&facts, Some(writer), TerminalView::new(&mut live, None));
            let mut events = events();
            if finish {
                events.push(Event::Finish(Finish {
                    reason: FinishReason::Duration,
                    mono_ns: 0,
                }));
            }
            events.iter().for_each(|event| session.accept(event));
            assert!(session.finish().recorded.wait().is_none());

            let mut reader = RecordingReader::open(&path).unwrap();
            let facts = reader.facts().clone();
            let mut replayed = Memory::default();
            let mut session = Session::new(&facts, None, TerminalView::new(&mut replayed, None));
            reader.for_each(&mut |event| session.accept(event)).unwrap();
            session.finish();
            assert_eq!(live.0, replayed.0);
            assert_eq!(live.0.lines().count(), 49 * 4);
            let first: Vec<&str> = live.0.lines().take(4).collect();
            assert_eq!(
                first,
                [
                    "[016]     0.020003: irq_noise: eno1:62 start 0.020001000 duration 2204 ns",
                    "[016]     0.020050: thread_noise: ksoftirqd/16:129 start 0.020004000 duration 45816 ns",
                    "[016]     0.020051: sample_threshold: start 0.020000000 duration 50946 ns interference 2",
                    "[016]     0.020051: sample_budget: 50946 ns = 45816 ns thread ksoftirqd/16:129 + 2926 ns unexplained (residual) + 2204 ns irq eno1:62",
                ]
            );
        }
    }

    #[test]
    fn what_is_saved_ends_with_the_gap_that_hit_the_limit() {
        let mut facts = fixtures::polling_facts();
        facts.options.stop_ns = Some(50_000);
        let mut view = Memory::default();
        let mut session = Session::new(&facts, None, TerminalView::new(&mut view, None));
        let mut events = events();
        events.push(Event::Finish(Finish {
            reason: FinishReason::Stop,
            mono_ns: 0,
        }));
        let lines = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        events.iter().for_each(|event| session.accept(event));
        let before = lines(&session.recent_trace().text());
        assert!(before > 4, "nothing was asked yet");
        assert!(session.take_limit_hit(false));
        assert_eq!(lines(&session.recent_trace().text()), 4);
        assert!(!session.take_limit_hit(false));
        assert!(session.take_limit_hit(true), "a whole period");
        assert_eq!(lines(&session.recent_trace().text()), before);
        let text = session.finish().trace.text();
        assert_eq!(lines(&text), 4);
        assert!(text.ends_with("+ 2204 ns irq eno1:62\n"), "{text}");
    }
}
