//! Timeline of a guest and its host, on the host's clock.

use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_engine::ExplainedRun;
use vmnoise_events::{Activity, Event, RunFacts};
use vmnoise_explain::{ExitExplainer, Interval, Pairs, PeriodLine, by_source};
use vmnoise_export::{Timeline, TrackSide};

use super::target::{ExportTarget, Names, warn_of_crowded};

/// Timeline that places the guest's events on the host's clock. Events outside the host's
/// recording, or without a known clock, are left out.
pub struct JoinedTimeline {
    timeline: Timeline,
    pairs: Pairs,
    /// Explains the host's exits, in parallel with the joiner.
    exits: ExitExplainer,
    /// Number of gaps and wake-ups that are left out.
    unplaced: u64,
}

impl JoinedTimeline {
    pub fn create(
        path: &Path,
        guest: &RunFacts,
        host: &RunFacts,
        pairs: Pairs,
    ) -> Result<JoinedTimeline> {
        Ok(JoinedTimeline {
            timeline: Timeline::create(path, host, Some(guest))?,
            pairs,
            exits: ExitExplainer::with_trace(host),
            unplaced: 0,
        })
    }

    fn take_exits(&mut self) -> Result<()> {
        for exit in self.exits.take_trace() {
            self.timeline.exit(TrackSide::Host, &exit)?;
        }
        Ok(())
    }

    /// Converts a time of the guest to the host's clock. Uses the first CPU of the guest that
    /// allows this.
    fn placed_at(&self, mono_ns: u64) -> Option<u64> {
        let mut cpus = self.pairs.pairs().iter().map(|pair| pair.cpu);
        cpus.find_map(|cpu| self.pairs.host_mono_ns(cpu, mono_ns))
    }

    /// Converts a span of a guest's CPU to the host's clock.
    fn placed(&self, cpu: u32, (start_ns, end_ns): (u64, u64)) -> Option<(u64, u64)> {
        let start_ns = self.pairs.host_mono_ns(cpu, start_ns)?;
        let end_ns = self.pairs.host_mono_ns(cpu, end_ns)?;
        (start_ns <= end_ns).then_some((start_ns, end_ns))
    }
}

impl ExportTarget for JoinedTimeline {
    fn see(&mut self, event: &Event) -> Result<()> {
        let placed = match event {
            Event::Activity(activity) => {
                let span_ns = (activity.start_mono_ns, activity.end_mono_ns);
                self.placed(activity.cpu, span_ns)
                    .map(|(start_mono_ns, end_mono_ns)| {
                        Event::Activity(Activity {
                            start_mono_ns,
                            end_mono_ns,
                            ..*activity
                        })
                    })
            }
            Event::Watermark(mono_ns) => self.placed_at(*mono_ns).map(Event::Watermark),
            Event::Source(_) => Some(event.clone()),
            _ => None,
        };
        if let Some(event) = placed {
            self.timeline.see(TrackSide::Guest, &event)?;
        }
        Ok(())
    }

    fn see_host(&mut self, event: &Event) -> Result<()> {
        self.timeline.see(TrackSide::Host, event)?;
        self.exits.push(event, &mut |_| {});
        self.take_exits()
    }

    fn interval(&mut self, interval: &Interval, names: Names<'_, '_>) -> Result<()> {
        let span_ns = (interval.start_mono_ns, interval.end_mono_ns());
        let Some(span_ns) = self.placed(interval.cpu, span_ns) else {
            self.unplaced += 1;
            return Ok(());
        };
        let vcpu = self.pairs.vcpu_of(interval.cpu);
        let interval = Interval {
            parts: by_source(&interval.parts),
            ..interval.clone()
        };
        self.timeline
            .interval(TrackSide::Guest, &interval, span_ns, vcpu, names)?;
        Ok(())
    }

    fn period(&mut self, lines: &[PeriodLine], span_ns: (u64, u64)) -> Result<()> {
        for line in lines {
            if let Some(span_ns) = self.placed(line.cpu, span_ns) {
                let line = std::slice::from_ref(line);
                self.timeline.period(TrackSide::Guest, line, span_ns)?;
            }
        }
        Ok(())
    }

    /// Finishes the timeline, and reports the number of gaps and wake-ups that it leaves out.
    fn end(mut self: Box<Self>, explained: &ExplainedRun) -> Result<()> {
        self.exits.run_out(&mut |_| {});
        self.take_exits()?;
        if let ExplainedRun::Cpus(guest) = explained
            && let Some(origin_ns) = guest.origin_mono_ns
            && let Some(origin_ns) = self.placed_at(origin_ns)
        {
            self.timeline.origin(origin_ns)?;
        }
        warn_of_crowded(self.timeline.finish()?);
        if self.unplaced > 0 {
            say::say(format_args!(
                "{} gaps or wake-ups are not in the timeline, because they lie outside the host's recording",
                self.unplaced
            ));
        }
        Ok(())
    }
}
