//! The recording of a run, written as it goes.

use std::fs::File;

use vmnoise_events::Event;
use vmnoise_recording::Writer;

/// Writes what it is given, if anything is to be recorded. A recording that cannot be
/// written any more (disk full) is given up and told at the end; measuring goes on.
#[derive(Debug)]
pub struct Recorder {
    writer: Option<Writer<File>>,
    error: Option<anyhow::Error>,
    /// What was not told yet.
    news: Option<String>,
}

impl Recorder {
    /// `writer` has the facts already.
    pub fn new(writer: Option<Writer<File>>) -> Recorder {
        Recorder {
            writer,
            error: None,
            news: None,
        }
    }

    /// Takes one event.
    pub fn push(&mut self, event: &Event) {
        self.write(|writer| writer.push(event));
    }

    /// Makes sure that what was recorded so far survives the end of this process.
    pub fn flush(&mut self) {
        self.write(Writer::flush);
    }

    /// What went wrong since the last call, for whoever sits before the run.
    pub fn take_news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// Ends the recording; returns what went wrong with it.
    pub fn finish(self) -> Option<anyhow::Error> {
        match self.writer.map(Writer::finish) {
            Some(Err(error)) => Some(anyhow::Error::new(error).context("ending the recording")),
            _ => self.error,
        }
    }

    fn write<E>(&mut self, action: impl FnOnce(&mut Writer<File>) -> Result<(), E>)
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        if let Some(writer) = &mut self.writer
            && let Err(error) = action(writer)
        {
            let error = anyhow::Error::new(error);
            self.news = Some(format!("{error:#}; the run goes on"));
            self.error = Some(error);
            self.writer = None;
        }
    }
}
