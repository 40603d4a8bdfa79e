//! Serves one order after the other: attaches the programs, reads their events, and detaches them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Event, Finish, FinishReason};
use vmnoise_host::VmProcess;
use vmnoise_tracer::ExitTracer;
use vmnoise_workload::tsc;

use super::recording::{Becomes, Recording};
use super::sums::Sums;
use super::{Order, Purpose, Shared};
use crate::clock::now_ns;
use crate::dump_folder::Shelf;
use crate::machine::Machine;
use crate::say::say;

/// Interval at which the ring is emptied. The ring has room for one million records per second
/// during this interval.
const TICK: Duration = Duration::from_millis(100);
/// Waiting time before the ring is emptied for the last time. A program may have taken an event's
/// time and not yet submitted the event. Programs run with preemption off, so 1 ms is ample.
const SLACK: Duration = Duration::from_millis(1);

/// State of the thread that records exits.
pub(super) struct Looker {
    pub(super) tracer: ExitTracer,
    pub(super) machine: Machine,
    pub(super) shelf: Option<Shelf>,
    pub(super) shared: Arc<Shared>,
}

impl Looker {
    /// Serves orders until the sender of orders is dropped.
    pub(super) fn serve(mut self, orders: &Receiver<Order>) {
        for Order { vm, purpose } in orders {
            if !self.shared.rests.load(Relaxed)
                && let Err(error) = self.look(&vm, purpose)
            {
                say(&format!(
                    "exits of {} could not be recorded: {error:#}",
                    vm.name
                ));
            }
            // The programs are detached after errors too, so that no program keeps running.
            if let Err(error) = self.tracer.detach() {
                say(&format!("exits: {error}"));
            }
            self.shared.is_for_a_request.store(false, Relaxed);
            self.shared.asked.fetch_sub(1, Relaxed);
        }
    }

    fn look(&mut self, vm: &VmProcess, purpose: Purpose) -> Result<()> {
        self.tracer.follow(vm.clone())?;
        self.tracer.attach()?;
        let length = purpose.length();
        let begin = |made| Recording::begin(made, &self.machine, &self.tracer, &vm.name, length);
        let mut recording = match (purpose, &self.shelf) {
            (Purpose::AfterDump(dump), Some(shelf)) => Some(begin(Becomes::file(shelf, dump)?)?),
            (Purpose::Request { answer, .. }, _) => Some(begin(Becomes::Answer(answer))?),
            (Purpose::AfterDump(_), None) | (Purpose::Turn, _) => None,
        };
        let mut sums = Sums::default();
        let looked = self.look_on(vm, length, &mut recording, &mut sums);
        match (recording, &looked) {
            (Some(recording), Ok(())) => recording.end(),
            (Some(recording), Err(error)) => recording.give_up(anyhow::anyhow!("{error:#}")),
            (None, _) => {}
        }
        let all = self.shared.sums.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.take(&vm.name, sums);
        looked
    }

    /// Records for `length`, and collects the counts in `sums`.
    fn look_on(
        &mut self,
        vm: &VmProcess,
        length: Duration,
        recording: &mut Option<Recording>,
        sums: &mut Sums,
    ) -> Result<()> {
        let (began_ns, until) = (now_ns(), Instant::now() + length);
        self.tracer.count().context("beginning to count")?;
        let mut reason = FinishReason::Duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wants_no_more = |it: &Recording| it.is_full() || it.is_unwanted();
            let is_enough = recording.as_ref().is_some_and(wants_no_more);
            if self.shared.rests.load(Relaxed) || is_enough {
                reason = FinishReason::Interrupt;
            }
            if left.is_zero() || reason == FinishReason::Interrupt {
                break;
            }
            sleep(left.min(TICK));
            // A turn needs only the counts at its end.
            if recording.is_some() {
                self.drain(vm, recording, sums)?;
            }
            self.shared.probe_ns.store(self.tracer.probe_ns()?, Relaxed);
        }
        // The counts are final after the programs are detached.
        self.tracer.detach().context("ending to count")?;
        sums.looked_ns = now_ns() - began_ns;
        sleep(SLACK);
        let mono_ns = self.drain(vm, recording, sums)?;
        self.shared.probe_ns.store(self.tracer.probe_ns()?, Relaxed);
        let counted = self.tracer.read().context("reading the counts")?;
        for (vcpu, totals) in counted {
            sums.add(&totals);
            write(recording, &Event::Vcpu(vcpu))?;
            write(recording, &Event::VcpuTotals(totals))?;
        }
        write(recording, &Event::Finish(Finish { reason, mono_ns }))
    }

    /// Reads the events since the last call. Returns the instant before which all events have been
    /// read (CLOCK_MONOTONIC in ns).
    fn drain(
        &mut self,
        vm: &VmProcess,
        recording: &mut Option<Recording>,
        sums: &mut Sums,
    ) -> Result<u64> {
        let anchor = tsc::anchor();
        write(recording, &Event::Anchor(anchor))?;
        let newcomers = self.tracer.newcomers().context("counting the vCPUs")?;
        if !newcomers.is_empty() {
            // All new vCPUs belong to this VM.
            self.tracer.learn(&newcomers, vec![vm.clone()]);
        }
        let mut result = Ok(());
        self.tracer
            .drain(&mut |event| {
                // This event has the totals of a vCPU that has ended.
                if let Event::VcpuTotals(totals) = &event {
                    sums.add(totals);
                }
                if result.is_ok() {
                    result = write(recording, &event);
                }
            })
            .context("reading the BPF ring buffer")?;
        result?;
        for loss in self.tracer.losses().context("reading the losses")? {
            write(recording, &Event::Loss(loss))?;
        }
        let settled_ns = anchor.mono_ns.saturating_sub(SLACK.as_nanos() as u64);
        write(recording, &Event::Watermark(settled_ns))?;
        Ok(anchor.mono_ns)
    }
}

fn write(recording: &mut Option<Recording>, event: &Event) -> Result<()> {
    match recording {
        Some(recording) => recording.push(event),
        None => Ok(()),
    }
}
