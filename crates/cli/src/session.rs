//! One path from events to output: whatever feeds it, live probes or a
//! recording, goes through here in the same order and gives the same summary.

use std::fs::File;

use vmnoise_events::{Event, RunFacts};
use vmnoise_explain::{Budget, Explainer, PeriodLine, Summary};
use vmnoise_recording::Writer;

use crate::output::view::View;

/// Takes the events of a live run: explains them, and records them if asked.
pub struct Session<'a> {
    view: &'a mut dyn View,
    explainer: Explainer,
    writer: Option<Writer<File>>,
    write_error: Option<anyhow::Error>,
    stop_ns: Option<u64>,
    stop_hit: bool,
}

impl<'a> Session<'a> {
    /// A session for this run; `writer` has the facts already, `view` shows it.
    pub fn new(
        facts: &RunFacts,
        writer: Option<Writer<File>>,
        view: &'a mut dyn View,
    ) -> Session<'a> {
        Session {
            view,
            explainer: Explainer::new(facts),
            writer,
            write_error: None,
            stop_ns: facts.options.stop_ns,
            stop_hit: false,
        }
    }

    /// Takes one event. A recording that cannot be written any more (disk full)
    /// is given up and reported at the end; measuring goes on.
    pub fn accept(&mut self, event: &Event) {
        self.record(|writer| writer.push(event));
        let Session {
            view,
            explainer,
            stop_ns,
            stop_hit,
            ..
        } = self;
        explainer.feed(event, &mut |budget: &Budget| {
            view.gap(budget);
            *stop_hit |= stop_ns.is_some_and(|stop_ns| budget.dur_ns >= stop_ns);
        });
    }

    /// Makes sure that what was recorded so far survives the end of this process.
    pub fn flush(&mut self) {
        self.record(Writer::flush);
    }

    fn record<E>(&mut self, action: impl FnOnce(&mut Writer<File>) -> Result<(), E>)
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        if let Some(writer) = &mut self.writer
            && let Err(error) = action(writer)
        {
            let error = anyhow::Error::new(error)
                .context("the recording is incomplete; what was written before reads back");
            eprintln!("vmnoise: {error:#}");
            self.write_error = Some(error);
            self.writer = None;
        }
    }

    /// What shows the run.
    pub fn view(&mut self) -> &mut dyn View {
        self.view
    }

    /// Whether a gap of the length of `--stop` was seen.
    pub fn stop_hit(&self) -> bool {
        self.stop_hit
    }

    /// What happened on each CPU since the last call.
    pub fn take_period(&mut self) -> Vec<PeriodLine> {
        self.explainer.take_period()
    }

    /// Ends the recording and sums up. The error is that of the recording: the
    /// summary is there all the same.
    pub fn finish(mut self) -> (Summary, Option<anyhow::Error>) {
        if let Some(writer) = self.writer.take()
            && let Err(error) = writer.finish()
        {
            self.write_error = Some(anyhow::Error::new(error).context("ending the recording"));
        }
        (self.explainer.finish(), self.write_error)
    }
}
