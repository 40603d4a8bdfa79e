//! One stretch of time after the other: programs are attached, what they tell is taken, and they are detached.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Event, Finish, FinishReason};
use vmnoise_tracer::ExitTracer;
use vmnoise_workload::tsc;

use super::recording::Recording;
use super::sums::Sums;
use super::{Order, Shared};
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
        for order in orders {
            if !self.shared.rests.load(Relaxed)
                && let Err(error) = self.look(&order)
            {
                say(&format!(
                    "exits of {} could not be looked at: {error:#}",
                    order.vm.name
                ));
            }
            // Whatever has come of it, nothing runs any more.
            if let Err(error) = self.tracer.detach() {
                say(&format!("exits: {error}"));
            }
            self.shared.asked.fetch_sub(1, Relaxed);
        }
    }

    fn look(&mut self, order: &Order) -> Result<()> {
        self.tracer.follow(order.vm.clone())?;
        self.tracer.attach()?;
        let mut recording = match (&self.shelf, &order.dump) {
            (Some(shelf), Some(dump)) => {
                let begun = Recording::begin(shelf, &self.machine, &self.tracer, order, dump);
                Some(begun?)
            }
            _ => None,
        };
        let mut sums = Sums::default();
        let looked = self.look_on(order, &mut recording, &mut sums);
        match (recording, &looked) {
            (Some(recording), Ok(())) => recording.end(),
            (Some(recording), Err(error)) => recording.give_up(anyhow::anyhow!("{error:#}")),
            (None, _) => {}
        }
        let all = self.shared.sums.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.take(&order.vm.name, sums);
        looked
    }

    /// From the first event to the last.
    fn look_on(
        &mut self,
        order: &Order,
        recording: &mut Option<Recording>,
        sums: &mut Sums,
    ) -> Result<()> {
        let (began_ns, until) = (now_ns(), Instant::now() + order.length());
        self.tracer.count().context("beginning to count")?;
        let mut reason = FinishReason::Duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_full = recording.as_ref().is_some_and(Recording::is_full);
            if self.shared.rests.load(Relaxed) || is_full {
                reason = FinishReason::Interrupt;
            }
            if left.is_zero() || reason == FinishReason::Interrupt {
                break;
            }
            sleep(left.min(TICK));
            // Where nothing is written down, what was counted at the end is enough.
            if recording.is_some() {
                self.drain(order, recording, sums)?;
            }
            self.shared.probe_ns.store(self.tracer.probe_ns()?, Relaxed);
        }
        // What is read afterwards is final.
        self.tracer.detach().context("ending to count")?;
        sums.looked_ns = now_ns() - began_ns;
        sleep(SLACK);
        let mono_ns = self.drain(order, recording, sums)?;
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
        order: &Order,
        recording: &mut Option<Recording>,
        sums: &mut Sums,
    ) -> Result<u64> {
        let anchor = tsc::anchor();
        write(recording, &Event::Anchor(anchor))?;
        let newcomers = self.tracer.newcomers().context("counting the vCPUs")?;
        if !newcomers.is_empty() {
            // All of them are its own.
            self.tracer.learn(&newcomers, vec![order.vm.clone()]);
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
