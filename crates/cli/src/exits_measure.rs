//! The live loop of `vmnoise exits`: what is counted and told in the kernel goes to the
//! session, until the run is over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Event, Finish, FinishReason, RunFacts};
use vmnoise_tracer::ExitTracer;
use vmnoise_tracer::host::{Host, Vm};
use vmnoise_workload::tsc;

use crate::exits_session::{ExitsOutcome, ExitsSession};
use crate::interrupt::Interrupts;

/// Between two drains, and two looks at the clock and at Ctrl-C.
const TICK: Duration = Duration::from_millis(20);
/// Between two tables, two flushes of the recording, and two looks for VMs that came.
const PERIOD: Duration = Duration::from_secs(1);
/// A BPF program may have stamped an event and not yet submitted it; it runs with
/// preemption off, so this is ample.
const SUBMIT_SLACK_NS: u64 = 1_000_000;

/// One run with everything it holds.
pub struct ExitsMeasurement<'a, 'v> {
    host: &'a Host,
    facts: &'a RunFacts,
    tracer: ExitTracer,
    session: ExitsSession<'a, 'v>,
}

impl<'a, 'v> ExitsMeasurement<'a, 'v> {
    /// Takes over loaded programs that know the VMs there are.
    pub fn new(
        host: &'a Host,
        facts: &'a RunFacts,
        tracer: ExitTracer,
        session: ExitsSession<'a, 'v>,
    ) -> ExitsMeasurement<'a, 'v> {
        ExitsMeasurement {
            host,
            facts,
            tracer,
            session,
        }
    }

    /// Runs to the end of the duration, of the VM that was asked for, or to Ctrl-C.
    ///
    /// # Errors
    /// If the programs cannot be attached, or what they wrote cannot be read.
    pub fn run(mut self, interrupts: &Interrupts) -> Result<ExitsOutcome> {
        self.tracer.attach().context("attaching the BPF programs")?;
        self.anchor();
        self.tell_clocks()?;
        let start = Instant::now();
        let end = start + Duration::from_nanos(self.facts.options.duration_ns);
        let mut next_period = start + PERIOD;
        let reason = loop {
            std::thread::sleep(TICK);
            self.drain()?;
            let now = Instant::now();
            if now >= next_period {
                next_period += PERIOD;
                let vms = self.host.vms();
                let gone = self.is_gone(&vms);
                self.tracer.learn(vms);
                self.tell_clocks()?;
                self.totals()?;
                self.session.period();
                if gone {
                    break FinishReason::Failed;
                }
            }
            if interrupts.asked_to_finish() || self.session.is_gone() {
                break FinishReason::Interrupt;
            }
            if now >= end {
                break FinishReason::Duration;
            }
        };
        // What is read afterwards is final.
        self.tracer.detach();
        self.tracer.learn(self.host.vms());
        let mono_ns = self.drain()?;
        self.tell_clocks()?;
        self.totals()?;
        self.session
            .accept(&Event::Finish(Finish { reason, mono_ns }));
        Ok(self.session.finish())
    }

    /// Whether the one VM that was asked for has ended.
    fn is_gone(&self, vms: &[Vm]) -> bool {
        let filter = self.facts.options.exits.as_ref();
        let Some(wanted) = filter.and_then(|filter| filter.vm.as_ref()) else {
            return false;
        };
        let gone = !vms.iter().any(|vm| is_called(vm, wanted));
        if gone {
            eprintln!("vmnoise: VM `{wanted}` has ended; the result covers the time before");
        }
        gone
    }

    /// Takes what was told since the last call. The clock is read first: what ended before
    /// is in the ring by now. Returns CLOCK_MONOTONIC.
    fn drain(&mut self) -> Result<u64> {
        let mono_ns = self.anchor();
        if self.tracer.has_newcomers().context("counting the vCPUs")? {
            self.tracer.learn(self.host.vms());
            self.tell_clocks()?;
        }
        let session = &mut self.session;
        self.tracer
            .drain(&mut |event| session.accept(&event))
            .context("reading the BPF ring buffer")?;
        let settled_ns = mono_ns.saturating_sub(SUBMIT_SLACK_NS);
        session.accept(&Event::Watermark(settled_ns));
        Ok(mono_ns)
    }

    /// What a join of this recording with a guest's goes by.
    fn tell_clocks(&mut self) -> Result<()> {
        let session = &mut self.session;
        self.tracer
            .tell_clocks(self.host, &mut |event| session.accept(&event))
            .context("telling the clocks of the guests")
    }

    /// Reads the clocks; returns CLOCK_MONOTONIC.
    fn anchor(&mut self) -> u64 {
        let anchor = tsc::anchor();
        self.session.accept(&Event::Anchor(anchor));
        anchor.mono_ns
    }

    /// What was counted so far, and what was lost.
    fn totals(&mut self) -> Result<()> {
        let counted = self.tracer.read().context("reading the counts")?;
        for (vcpu, totals) in counted {
            self.session.accept(&Event::Vcpu(vcpu));
            self.session.accept(&Event::VcpuTotals(totals));
        }
        for loss in self.tracer.losses().context("reading the losses")? {
            self.session.accept(&Event::Loss(loss));
        }
        Ok(())
    }
}

/// Whether people mean this VM by its name or the process id of its VMM.
pub fn is_called(vm: &Vm, wanted: &str) -> bool {
    vm.name == wanted || wanted.parse() == Ok(vm.pid)
}
