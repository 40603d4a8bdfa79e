//! Writes the tables of one run while it is explained.

use std::path::{Path, PathBuf};

use vmnoise_events::column::Columns;
use vmnoise_events::{Event, MeasuringCommand, RunFacts, SourceId};
use vmnoise_explain::{
    CpuSummary, Detail, ExitsSummary, Interval, NamedExit, Part, PeriodLine, Phase,
};

use crate::error::ExportError;
use crate::error::io_error;
use crate::owner::make_folder;
use crate::partition::Partition;
use crate::rows::parts::PartRow;
use crate::rows::{RunReport, cpus, exits, gaps, parts, run, wakeups};
use crate::table::{Cell, Encoding, TableFile, cells};
use crate::wall_clock::WallClock;

/// Files with the tables of one run. A file gets its final name when it is complete. It then
/// replaces the file of an earlier export of the same run.
#[derive(Debug)]
pub struct RunTables {
    folder: PathBuf,
    encoding: Encoding,
    clock: WallClock,
    facts: RunFacts,
    gaps: Option<GapTables>,
    wakeups: Option<EventTables<Interval>>,
    exits: Option<ExitTables>,
}

#[derive(Debug)]
struct GapTables {
    period_columns: Columns<'static, PeriodLine>,
    periods: TableFile,
    cpus: TableFile,
    gaps: EventTables<Interval>,
}

#[derive(Debug)]
struct ExitTables {
    reasons: TableFile,
    exits: EventTables<NamedExit>,
}

/// Table of events, and table of their parts.
#[derive(Debug)]
struct EventTables<R: 'static> {
    /// Columns of the events after number and time.
    columns: Columns<'static, R>,
    events: TableFile,
    parts: TableFile,
    /// Number of events that were added.
    count: u64,
}

impl RunTables {
    /// Creates the tables of a run with these facts, in the run's partition of a data set.
    ///
    /// # Errors
    /// If a folder or file cannot be made.
    pub fn create(
        data_set: &Path,
        partition: &Partition,
        facts: &RunFacts,
        encoding: Encoding,
    ) -> Result<RunTables, ExportError> {
        let folder = data_set.join(partition.folder());
        make_folder(&folder).map_err(io_error(&folder))?;
        let file = |schema| TableFile::create(&folder, schema, encoding);
        let (mut of_gaps, mut of_wakeups, mut of_exits) = (None, None, None);
        match facts.workload {
            MeasuringCommand::Timerlat => {
                let files = (file(wakeups::wakeups())?, file(wakeups::parts())?);
                of_wakeups = Some(EventTables::new(wakeups::columns(), files));
            }
            MeasuringCommand::Exits => {
                let files = (file(exits::exits())?, file(exits::parts())?);
                of_exits = Some(ExitTables {
                    reasons: file(exits::reasons())?,
                    exits: EventTables::new(exits::exit_columns(), files),
                });
            }
            MeasuringCommand::Microvm | MeasuringCommand::Osnoise | MeasuringCommand::Observed => {
                let files = (file(gaps::gaps())?, file(gaps::parts())?);
                of_gaps = Some(GapTables {
                    period_columns: gaps::period_columns(),
                    periods: file(gaps::periods())?,
                    cpus: file(cpus::schema())?,
                    gaps: EventTables::new(gaps::gap_columns(), files),
                });
            }
        }
        Ok(RunTables {
            encoding,
            clock: WallClock::new(facts),
            facts: facts.clone(),
            gaps: of_gaps,
            wakeups: of_wakeups,
            exits: of_exits,
            folder,
        })
    }

    /// Updates the conversion to wall-clock time. Call this before the event is explained.
    pub fn see(&mut self, event: &Event) {
        self.clock.see(event);
    }

    /// Adds a gap or a wake-up, and its parts.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn interval<'n>(
        &mut self,
        interval: &Interval,
        name: &dyn Fn(SourceId) -> &'n str,
    ) -> Result<(), ExportError> {
        let time_us = self.clock.at_us(interval.start_mono_ns);
        let row = |of, part: &Part| PartRow {
            of,
            time_us,
            cpu: interval.cpu,
            share: part.share,
            source: part.source.map(name),
            ns: part.ns,
        };
        let parts = interval.parts.iter();
        match (&interval.detail, &mut self.gaps, &mut self.wakeups) {
            (Detail::Gap(_), Some(GapTables { gaps: tables, .. }), _) => {
                let of = tables.count;
                let parts =
                    parts.map(|part| (row(of, part), [part.count.into(), part.host_cpu.into()]));
                tables.push(time_us, interval, parts)
            }
            (Detail::Wakeup(_), _, Some(tables)) => {
                let of = tables.count;
                let parts = parts.map(|part| {
                    let phase = part.phase.map(Phase::name);
                    (row(of, part), [phase.into(), part.host_cpu.into()])
                });
                tables.push(time_us, interval, parts)
            }
            _ => Ok(()),
        }
    }

    /// Adds the sums of each CPU for the time between two instants of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn period(&mut self, lines: &[PeriodLine], span_ns: (u64, u64)) -> Result<(), ExportError> {
        let Some(tables) = &mut self.gaps else {
            return Ok(());
        };
        let time_us = self.clock.at_us(span_ns.0);
        for line in lines {
            let span = [time_us.into(), span_ns.0.into(), span_ns.1.into()];
            let row = span.into_iter().chain(cells(&tables.period_columns, line));
            tables.periods.push(row)?;
        }
        Ok(())
    }

    /// Adds an exit and its parts.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn exit(&mut self, reported: &NamedExit) -> Result<(), ExportError> {
        let Some(ExitTables { exits: tables, .. }) = &mut self.exits else {
            return Ok(());
        };
        let time_us = self.clock.at_us(reported.exit.start_mono_ns);
        let of = tables.count;
        let parts = reported.parts.iter().map(|part| {
            let row = PartRow {
                of,
                time_us,
                cpu: reported.exit.exit_cpu,
                share: part.share,
                source: part.source.as_deref(),
                ns: part.ns,
            };
            (row, [part.count.into()])
        });
        tables.push(time_us, reported, parts)
    }

    /// Adds the sums of all exits, from the kernel's own counters.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn reasons(&mut self, summary: &ExitsSummary) -> Result<(), ExportError> {
        let Some(ExitTables { reasons, .. }) = &mut self.exits else {
            return Ok(());
        };
        let columns = exits::reason_columns();
        for vm in &summary.vms {
            for vcpu in &vm.vcpus {
                for reason in &vcpu.reasons {
                    reasons.push(cells(&columns, &(vm, vcpu, reason)))?;
                }
            }
        }
        Ok(())
    }

    /// Adds the sums of each CPU over the whole run. Does nothing for runs without gaps.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn cpus(&mut self, summaries: &[CpuSummary]) -> Result<(), ExportError> {
        let Some(GapTables { cpus, .. }) = &mut self.gaps else {
            return Ok(());
        };
        let columns = cpus::columns();
        let mut summaries = summaries.iter();
        summaries.try_for_each(|summary| cpus.push(cells(&columns, summary)))
    }

    /// Completes all tables, and writes the table `run`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(self, reported: RunReport) -> Result<(), ExportError> {
        if let Some(tables) = self.gaps {
            tables.periods.finish()?;
            tables.cpus.finish()?;
            tables.gaps.finish()?;
        }
        if let Some(tables) = self.wakeups {
            tables.finish()?;
        }
        if let Some(tables) = self.exits {
            tables.reasons.finish()?;
            tables.exits.finish()?;
        }
        let mut run = TableFile::create(&self.folder, run::schema(), self.encoding)?;
        let asked = run::Asked::of(&self.facts);
        let row = (&self.facts, &asked, reported);
        let (program, columns) = (run::program(), run::columns());
        let started = [self.clock.started_us().into()];
        let program = cells(&program, &row).chain(started);
        run.push(program.chain(cells(&columns, &row)))?;
        run.finish()
    }
}

impl<R> EventTables<R> {
    fn new(columns: Columns<'static, R>, (events, parts): (TableFile, TableFile)) -> Self {
        EventTables {
            columns,
            events,
            parts,
            count: 0,
        }
    }

    /// Adds an event and its parts. Each part has `MORE` additional cells.
    fn push<'p, const MORE: usize>(
        &mut self,
        time_us: Option<i64>,
        event: &R,
        parts: impl Iterator<Item = (PartRow<'p>, [Cell<'p>; MORE])>,
    ) -> Result<(), ExportError> {
        let place = [self.count.into(), time_us.into()];
        let cells = cells(&self.columns, event);
        self.events.push(place.into_iter().chain(cells))?;
        for (part, more) in parts {
            self.parts.push(parts::row(part).into_iter().chain(more))?;
        }
        self.count += 1;
        Ok(())
    }

    fn finish(self) -> Result<(), ExportError> {
        self.events.finish()?;
        self.parts.finish()
    }
}
