//! One stretch of time after the other: programs are attached, what they tell is taken, and they are detached.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Event, Finish, FinishReason};
use vmnoise_host::Vm;
use vmnoise_tracer::ExitTracer;
use vmnoise_workload::tsc;

use super::recording::{Becomes, Recording};
use super::sums::Sums;
use super::{Order, Purpose, Shared};
use crate::clock::now_ns;
use crate::dump_folder::Shelf;
use crate::machine::Machine;
use crate::say::say;

/// How often the ring is emptied: it holds what a million records a second are meanwhile.
const TICK: Duration = Duration::from_millis(100);
/// A program may have stamped an event and not yet submitted it; it runs with preemption off, so this is ample.
const SLACK: Duration = Duration::from_millis(1);

/// The thread's own.
pub(super) struct Looker {
    pub(super) tracer: ExitTracer,
    pub(super) machine: Machine,
    pub(super) shelf: Option<Shelf>,
    pub(super) shared: Arc<Shared>,
}

impl Looker {
    /// Until nobody orders any more.
    pub(super) fn serve(mut self, orders: &Receiver<Order>) {
        for Order { vm, purpose } in orders {
            if !self.shared.rests.load(Relaxed)
                && let Err(error) = self.look(&vm, purpose)
            {
                say(&format!(
                    "exits of {} could not be looked at: {error:#}",
                    vm.name
                ));
            }
            // Whatever has come of it, nothing runs any more.
            if let Err(error) = self.tracer.detach() {
                say(&format!("exits: {error}"));
            }
            self.shared.is_for_a_request.store(false, Relaxed);
            self.shared.asked.fetch_sub(1, Relaxed);
        }
    }

    fn look(&mut self, vm: &Vm, purpose: Purpose) -> Result<()> {
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

    /// From the first event to the last.
    fn look_on(
        &mut self,
        vm: &Vm,
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
            // Where nothing is written down, what was counted at the end is enough.
            if recording.is_some() {
                self.drain(vm, recording, sums)?;
            }
            self.shared.probe_ns.store(self.tracer.probe_ns()?, Relaxed);
        }
        // What is read afterwards is final.
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

    /// Takes what was told since the last time; returns when that was.
    fn drain(
        &mut self,
        vm: &Vm,
        recording: &mut Option<Recording>,
        sums: &mut Sums,
    ) -> Result<u64> {
        let anchor = tsc::anchor();
        write(recording, &Event::Anchor(anchor))?;
        let newcomers = self.tracer.newcomers().context("counting the vCPUs")?;
        if !newcomers.is_empty() {
            // All of them are its own.
            self.tracer.learn(&newcomers, vec![vm.clone()]);
        }
        let mut result = Ok(());
        self.tracer
            .drain(&mut |event| {
                // Of one that has ended.
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
