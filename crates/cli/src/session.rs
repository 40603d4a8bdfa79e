//! One path from events to output: whatever feeds it, live probes or a
//! recording, goes through here in the same order and gives the same summary.

use std::time::Duration;

use vmnoise_events::{Event, RunFacts};
use vmnoise_explain::{Explainer, Interval, PeriodLine, Summary};
use vmnoise_recording::Writer;

use crate::output::view::{OuterSteal, Period, View};
use crate::recent_trace::{GapKey, RecentTrace};
use crate::recorder::{Recorded, Recorder};
use crate::write_behind::WriteBehind;

/// Takes the events of a live run: explains them, and records them if asked.
pub struct Session<'a> {
    view: &'a mut dyn View,
    explainer: Explainer,
    trace: RecentTrace,
    recorder: Recorder,
    /// The earliest gap, or late wake-up, that hit a limit since that was asked for.
    stop_hit: Option<GapKey>,
}

/// What a run comes to.
#[derive(Debug)]
pub struct Outcome {
    /// The result.
    pub summary: Summary,
    /// The last lines of the trace, if the view wanted it.
    pub trace: RecentTrace,
    /// The recording, which the disk may not have yet.
    pub recorded: Recorded,
}

impl<'a> Session<'a> {
    /// A session for this run; `writer` has the facts already, `view` shows it.
    pub fn new(
        facts: &RunFacts,
        writer: Option<Writer<WriteBehind>>,
        view: &'a mut dyn View,
    ) -> Session<'a> {
        let explainer = match view.wants_trace() {
            true => Explainer::with_trace(facts),
            false => Explainer::new(facts),
        };
        Session {
            view,
            explainer,
            trace: RecentTrace::of(facts.workload),
            recorder: Recorder::new(writer),
            stop_hit: None,
        }
    }

    /// Takes one event.
    pub fn accept(&mut self, event: &Event) {
        self.recorder.push(event);
        self.tell_recorder();
        self.explain(|explainer, on_interval| explainer.feed(event, on_interval));
    }

    fn explain(&mut self, step: impl FnOnce(&mut Explainer, &mut dyn FnMut(&Interval))) {
        let Session {
            view,
            explainer,
            trace,
            stop_hit,
            ..
        } = self;
        step(explainer, &mut |interval: &Interval| {
            view.interval(interval);
            if interval.hits_limit {
                let key = (interval.start_mono_ns, interval.cpu);
                *stop_hit = Some(stop_hit.map_or(key, |first| first.min(key)));
            }
        });
        let lines = explainer.take_trace();
        if !lines.is_empty() {
            view.trace(&lines);
            lines.into_iter().for_each(|line| trace.push(line));
        }
    }

    /// Makes sure that what was recorded so far survives the end of this process.
    pub fn flush(&mut self) {
        self.recorder.flush();
        self.tell_recorder();
    }

    fn tell_recorder(&mut self) {
        if let Some(news) = self.recorder.take_news() {
            self.view.notice(&news);
        }
    }

    /// What shows the run.
    pub fn view(&mut self) -> &mut dyn View {
        self.view
    }

    /// Whether a limit was hit since the last call: that of a whole period, or that of a
    /// gap, with which the trace to be saved then ends.
    pub fn take_limit_hit(&mut self, of_period: bool) -> bool {
        let gap = self.stop_hit.take();
        let hit = of_period || gap.is_some();
        if hit {
            self.trace.save_up_to(gap);
        }
        hit
    }

    /// The last lines of the trace so far.
    pub fn recent_trace(&self) -> &RecentTrace {
        &self.trace
    }

    /// A period is over: shows what [`Self::take_period`] gave.
    pub fn show_period(
        &mut self,
        since_start: Duration,
        lines: &[PeriodLine],
        outer_steal: &OuterSteal,
    ) {
        self.view.period(&Period {
            since_start,
            lines,
            outer_steal,
            longest: self.explainer.longest_so_far(),
            explainer: &self.explainer,
        });
    }

    /// What happened on each CPU since the last call.
    pub fn take_period(&mut self) -> Vec<PeriodLine> {
        self.explainer.take_period()
    }

    /// Sums up, and hands the end of the recording over.
    pub fn finish(mut self) -> Outcome {
        self.explain(Explainer::run_out);
        let summary = self.explainer.finish();
        let wakeups = summary.wakeups.as_ref();
        let late = wakeups.and_then(|wakeups| wakeups.stopped_by.as_ref());
        let stopped_by = summary.stopped_by.as_ref().or(late);
        self.trace
            .save_up_to(stopped_by.map(|it| (it.start_mono_ns, it.cpu)));
        Outcome {
            summary,
            trace: self.trace,
            recorded: self.recorder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use std::fs::File;

    use vmnoise_events::{
        Activity, ActivityKind, Anchor, Finish, FinishReason, Gap, Source, SourceId,
    };
    use vmnoise_explain::TraceLine;
    use vmnoise_recording::Reader;

    use super::*;
    use crate::fixtures;
    use crate::output::trace_line;
    use crate::recorder;

    /// Prints the trace into memory.
    #[derive(Default)]
    struct Memory(String);

    impl View for Memory {
        fn wants_trace(&self) -> bool {
            true
        }
        fn begin(&mut self, _facts: &RunFacts) {}
        fn trace(&mut self, lines: &[TraceLine]) {
            self.0.extend(lines.iter().map(trace_line::render));
        }
        fn period(&mut self, _period: &Period<'_>) {}
        fn finish(&mut self, _: &RunFacts, _: &Summary, _: &RecentTrace) -> anyhow::Result<()> {
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

    /// The samples of the osnoise paper's case, over and over, the last one cut off.
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
                }),
                Event::Watermark(start),
            ]);
        }
        events
    }

    #[test]
    fn live_and_from_a_recording_the_trace_is_the_same() {
        let facts = fixtures::facts();
        for finish in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.vmn");
            let writer = recorder::begin(File::create(&path).unwrap(), &facts).unwrap();
            let mut live = Memory::default();
            let mut session = Session::new(&facts, Some(writer), &mut live);
            let mut events = events();
            if finish {
                events.push(Event::Finish(Finish {
                    reason: FinishReason::Duration,
                    mono_ns: 0,
                }));
            }
            events.iter().for_each(|event| session.accept(event));
            assert!(session.finish().recorded.wait().is_none());

            let mut reader = Reader::open(&path).unwrap();
            let facts = reader.facts().clone();
            let mut replayed = Memory::default();
            let mut session = Session::new(&facts, None, &mut replayed);
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
        let mut facts = fixtures::facts();
        facts.options.stop_ns = Some(50_000);
        let mut view = Memory::default();
        let mut session = Session::new(&facts, None, &mut view);
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
