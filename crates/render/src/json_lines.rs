//! Output of `--json-lines`: one object in each line (docs/json.md). Each period has an object, and
//! the last object is the summary of the run. Unknown values are null.

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{FinishReason, RunFacts};
use vmnoise_explain::PeriodLine;
use vmnoise_views::{Meanwhile, News, Period, ResultPart, ResultView, ViewPlan, Watcher};

use super::json::SummaryDocument;
use super::stream::Stream;

/// JSON document `vmnoise.period/1`.
#[derive(Debug, Serialize)]
struct PeriodDocument<'a> {
    schema: &'static str,
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
    since_start_ns: u64,
    cpus: &'a [PeriodLine],
}

/// View that prints an object at the end of each period.
#[derive(Debug)]
pub struct JsonLines {
    keeps_trace: bool,
    facts: Option<RunFacts>,
    stream: Stream,
}

impl JsonLines {
    /// Creates the view. With `keeps_trace`, the run keeps the last lines of its trace.
    pub fn new(keeps_trace: bool) -> JsonLines {
        JsonLines {
            keeps_trace,
            facts: None,
            stream: Stream::default(),
        }
    }
}

impl Watcher for JsonLines {
    fn see(&mut self, news: News<'_>) {
        match news {
            News::Begin(facts) => self.facts = Some(facts.clone()),
            News::Period(period) => self.print_period(period),
            _ => {}
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        self.stream.ends()
    }
}

impl ResultView for JsonLines {
    fn plan(&self) -> ViewPlan {
        ViewPlan {
            keeps_trace: self.keeps_trace,
            meanwhile: Meanwhile::Own,
        }
    }

    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        let ResultPart::Cpus(result) = part else {
            return Ok(());
        };
        self.stream.end()?;
        super::write(line(&SummaryDocument::new(result.facts, result.summary))?.as_bytes())
    }
}

impl JsonLines {
    fn print_period(&mut self, period: &Period<'_>) {
        let Some(facts) = &self.facts else { return };
        let line = line(&PeriodDocument {
            schema: "vmnoise.period/1",
            tool_version: &facts.tool_version,
            kernel: &facts.host.kernel,
            hypervisor: facts.host.hypervisor.as_deref(),
            started_at: &facts.started_at,
            since_start_ns: u64::try_from(period.since_start.as_nanos()).unwrap_or(u64::MAX),
            cpus: period.lines,
        });
        // An object that cannot be formatted is skipped: the summary covers its period, too.
        self.stream.print(&line.unwrap_or_default());
    }
}

fn line(document: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(document)? + "\n")
}
