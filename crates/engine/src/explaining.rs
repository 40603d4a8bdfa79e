//! Explainer of a run, chosen by its workload. Live runs and recordings use the same explainer.

use vmnoise_events::{Event, FinishReason, MeasuringCommand, RunFacts, SourceId};
use vmnoise_explain::{ExitExplainer, ExitsRun, Explainer, Summary};
use vmnoise_views::{GapKey, News};

/// Explainer of a run, for either kind of workload.
#[derive(Debug)]
pub enum Explaining {
    /// Gaps or wake-ups of CPUs.
    Cpus(Box<Explainer>),
    /// Exits of vCPUs.
    Vcpus(Box<ExitExplainer>),
}

/// Result of a run.
#[derive(Debug)]
pub enum ExplainedRun {
    /// Gaps or wake-ups of CPUs.
    Cpus(Box<Summary>),
    /// Exits of vCPUs.
    Vcpus(Box<ExitsRun>),
}

impl Explaining {
    /// Creates the explainer for this run.
    pub fn new(facts: &RunFacts, with_trace: bool) -> Explaining {
        match (facts.workload, with_trace) {
            (MeasuringCommand::Exits, false) => {
                Explaining::Vcpus(Box::new(ExitExplainer::new(facts)))
            }
            (MeasuringCommand::Exits, true) => {
                Explaining::Vcpus(Box::new(ExitExplainer::with_trace(facts)))
            }
            (_, false) => Explaining::Cpus(Box::new(Explainer::new(facts))),
            (_, true) => Explaining::Cpus(Box::new(Explainer::with_trace(facts))),
        }
    }

    /// Explains the next event. `on_news` receives everything that becomes certain with this event.
    pub fn push(&mut self, event: &Event, on_news: &mut dyn FnMut(News<'_>)) {
        match self {
            Explaining::Cpus(explainer) => {
                explainer.push(event, &mut |interval| on_news(News::Interval(interval)));
            }
            Explaining::Vcpus(explainer) => {
                explainer.push(event, &mut |exit| on_news(News::Exit(exit)));
            }
        }
        self.hand_over(on_news);
    }

    /// Explains all pending events, as at the end of a stream that was cut off.
    pub fn run_out(&mut self, on_news: &mut dyn FnMut(News<'_>)) {
        match self {
            Explaining::Cpus(explainer) => {
                explainer.run_out(&mut |interval| on_news(News::Interval(interval)));
            }
            Explaining::Vcpus(explainer) => {
                explainer.run_out(&mut |exit| on_news(News::Exit(exit)));
            }
        }
        self.hand_over(on_news);
    }

    fn hand_over(&mut self, on_news: &mut dyn FnMut(News<'_>)) {
        match self {
            Explaining::Cpus(explainer) => {
                if explainer.has_trace() {
                    on_news(News::Trace(&explainer.take_trace()));
                }
            }
            Explaining::Vcpus(explainer) => {
                if explainer.has_trace() {
                    on_news(News::TracedExits(&explainer.take_trace()));
                }
            }
        }
    }

    /// Returns the name that the stream gave to a source; `undefined` if it gave none.
    pub fn source_name(&self, id: SourceId) -> &str {
        match self {
            Explaining::Cpus(explainer) => explainer.source_name(id),
            Explaining::Vcpus(explainer) => explainer.source_name(id),
        }
    }

    /// Returns the result.
    pub fn finish(self) -> ExplainedRun {
        match self {
            Explaining::Cpus(explainer) => ExplainedRun::Cpus(Box::new(explainer.finish())),
            Explaining::Vcpus(explainer) => ExplainedRun::Vcpus(Box::new(explainer.finish())),
        }
    }
}

impl ExplainedRun {
    /// Returns why the run ended; `None` for a run over vCPUs, since a VM may end at any time.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        match self {
            ExplainedRun::Cpus(summary) => summary.finish_reason,
            ExplainedRun::Vcpus(_) => None,
        }
    }

    /// Returns the gap or wake-up that stopped the run, if any.
    pub fn stopped_by(&self) -> Option<GapKey> {
        let ExplainedRun::Cpus(summary) = self else {
            return None;
        };
        let wakeups = summary.wakeups.as_ref();
        let late = wakeups.and_then(|wakeups| wakeups.stopped_by.as_ref());
        let stopped_by = summary.stopped_by.as_ref().or(late);
        stopped_by.map(|it| (it.start_mono_ns, it.cpu))
    }
}
