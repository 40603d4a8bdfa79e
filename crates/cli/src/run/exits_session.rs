//! One path from the events of a run over vCPUs to its output, as [`crate::run::session`] is
//! that of gaps: live and from a recording the same.

use std::time::Duration;

use vmnoise_events::{Event, HostCulprit, RunFacts, VcpuId};
use vmnoise_explain::{ExitExplainer, ExitsRun};
use vmnoise_recording::Writer;

use crate::feed::sender::{Culprits, FeedReport};
use crate::output::exits::ExitsView;
use crate::run::recorder::{Recorded, Recorder};
use crate::run::write_behind::WriteBehind;

/// Takes the events of a run: explains them, shows them, and records them if asked.
pub struct ExitsSession<'a, 'v> {
    view: &'a mut ExitsView<'v>,
    explainer: ExitExplainer,
    /// Where guests are told names.
    culprits: Option<Culprits>,
    recorder: Recorder,
    /// The first and the last clock reading, CLOCK_MONOTONIC in nanoseconds.
    span_ns: Option<(u64, u64)>,
}

/// What a run comes to.
#[derive(Debug)]
pub struct ExitsOutcome {
    /// The result.
    pub run: ExitsRun,
    /// How long it was, by the stream.
    pub measured: Duration,
    /// The recording, which the disk may not have yet.
    pub recorded: Recorded,
    /// What became of the feeds.
    pub feeds: Vec<FeedReport>,
}

impl<'a, 'v> ExitsSession<'a, 'v> {
    /// A session for this run; `writer` has the facts already.
    pub fn new(
        facts: &RunFacts,
        writer: Option<Writer<WriteBehind>>,
        view: &'a mut ExitsView<'v>,
    ) -> ExitsSession<'a, 'v> {
        view.begin(facts);
        let explainer = match view.wants_trace() {
            true => ExitExplainer::with_trace(facts),
            false => ExitExplainer::new(facts),
        };
        ExitsSession {
            view,
            explainer,
            culprits: None,
            recorder: Recorder::new(writer),
            span_ns: None,
        }
    }

    /// Sums up who takes each vCPU's time, for [`Self::culprits`].
    pub fn sum_culprits(&mut self) {
        self.culprits = Some(Culprits::default());
    }

    /// Who took this vCPU's time so far, the most expensive first.
    pub fn culprits(&self, vcpu: VcpuId) -> Vec<HostCulprit> {
        let culprits = self.culprits.iter();
        let named = culprits.flat_map(|sums| sums.of(vcpu, |id| self.explainer.source_name(id)));
        named.collect()
    }

    /// Takes one event.
    pub fn accept(&mut self, event: &Event) {
        self.recorder.push(event);
        self.tell_recorder();
        if let Event::Anchor(anchor) = event {
            let (first_ns, _) = self.span_ns.unwrap_or((anchor.mono_ns, 0));
            self.span_ns = Some((first_ns, anchor.mono_ns));
        }
        let culprits = &mut self.culprits;
        self.explainer.feed(event, &mut |budget| {
            if let Some(culprits) = culprits {
                culprits.add(budget);
            }
        });
        let lines = self.explainer.take_trace();
        if !lines.is_empty() {
            self.view.trace(&lines);
        }
    }

    /// Another second is over: shows it, and makes sure that what was recorded so far
    /// survives the end of this process.
    pub fn period(&mut self) {
        self.recorder.flush();
        self.tell_recorder();
        if self.view.wants_periods() {
            self.view.period(self.measured(), &self.explainer.exits());
        }
    }

    fn tell_recorder(&mut self) {
        if let Some(news) = self.recorder.take_news() {
            self.view.notice(&news);
        }
    }

    /// What shows the run.
    pub fn view(&mut self) -> &mut ExitsView<'v> {
        self.view
    }

    /// Sums up, and hands the end of the recording over.
    pub fn finish(mut self) -> ExitsOutcome {
        let measured = self.measured();
        self.explainer.run_out(&mut |_| {});
        let lines = self.explainer.take_trace();
        self.view.trace(&lines);
        ExitsOutcome {
            run: self.explainer.finish(),
            measured,
            recorded: self.recorder.finish(),
            feeds: Vec::new(),
        }
    }

    fn measured(&self) -> Duration {
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        Duration::from_nanos(last_ns.saturating_sub(first_ns))
    }
}
