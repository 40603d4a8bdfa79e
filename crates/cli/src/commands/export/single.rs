//! One recording, explained by itself.

use std::ops::ControlFlow;

use anyhow::Result;
use vmnoise_events::{Event, Workload};
use vmnoise_explain::{ExitExplainer, Explainer, Interval};
use vmnoise_recording::Reader;

use super::super::replay::{Replayed, name_file};
use super::input::Input;
use super::periods::Periods;
use super::target::{Ended, Target};
use crate::progress::{self, Input as Bytes};

/// Hands a recording to `targets`, event by event and explained; returns how reading ended.
pub fn export(input: &Input, targets: Vec<Box<dyn Target>>) -> Result<Replayed> {
    let reader = progress::open(&input.path).map_err(|error| name_file(error, &input.path))?;
    match input.facts.workload {
        Workload::Vcpus => exits(input, reader, targets),
        _ => gaps(input, reader, targets),
    }
}

fn gaps(
    input: &Input,
    reader: Reader<Bytes>,
    mut targets: Vec<Box<dyn Target>>,
) -> Result<Replayed> {
    let mut explainer = Explainer::new(&input.facts);
    let mut periods = Periods::default();
    let mut certain: Vec<Interval> = Vec::new();
    let ending = each(reader, &mut |event| {
        for target in &mut targets {
            target.see(event)?;
        }
        explainer.feed(event, &mut |it| certain.push(it.clone()));
        pass_on(&explainer, &mut certain, &mut targets)?;
        if let Some(span_ns) = periods.see(event) {
            let lines = explainer.take_heard_period();
            for target in &mut targets {
                target.period(&lines, span_ns)?;
            }
        }
        Ok(())
    })?;
    explainer.run_out(&mut |it| certain.push(it.clone()));
    pass_on(&explainer, &mut certain, &mut targets)?;
    let lines = explainer.take_heard_period();
    for target in &mut targets {
        target.period(&lines, periods.rest())?;
    }
    let summary = explainer.finish();
    for target in targets {
        target.end(&Ended::Gaps(&summary))?;
    }
    Ok(ending)
}

/// Hands on what has become certain.
fn pass_on(
    explainer: &Explainer,
    certain: &mut Vec<Interval>,
    targets: &mut [Box<dyn Target>],
) -> Result<()> {
    let names = |id| explainer.source_name(id);
    for target in targets {
        for interval in &*certain {
            target.interval(interval, &names)?;
        }
    }
    certain.clear();
    Ok(())
}

fn exits(
    input: &Input,
    reader: Reader<Bytes>,
    mut targets: Vec<Box<dyn Target>>,
) -> Result<Replayed> {
    let mut explainer = ExitExplainer::with_trace(&input.facts);
    let ending = each(reader, &mut |event| {
        for target in &mut targets {
            target.see(event)?;
        }
        explainer.feed(event, &mut |_| {});
        for exit in explainer.take_trace() {
            for target in &mut targets {
                target.exit(&exit)?;
            }
        }
        Ok(())
    })?;
    explainer.run_out(&mut |_| {});
    for exit in explainer.take_trace() {
        for target in &mut targets {
            target.exit(&exit)?;
        }
    }
    let run = explainer.finish();
    for target in targets {
        target.end(&Ended::Exits(&run))?;
    }
    Ok(ending)
}

/// Reads to the end; a fault of `on_event` ends it at once, one of the recording is returned.
fn each(
    mut reader: Reader<Bytes>,
    on_event: &mut dyn FnMut(&Event) -> Result<()>,
) -> Result<Replayed> {
    loop {
        match reader.next_event() {
            Ok(ControlFlow::Continue(event)) => on_event(&event)?,
            Ok(ControlFlow::Break(ending)) => return Ok(Ok(ending)),
            Err(fault) => return Ok(Err(fault)),
        }
    }
}
