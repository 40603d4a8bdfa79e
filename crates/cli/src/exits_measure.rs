//! The live loop of `vmnoise exits`: what is counted and told in the kernel goes to the
//! session, until the run is over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Anchor, Event, FeedDetail, Finish, FinishReason, RunFacts, Vcpu, VcpuTotals};
use vmnoise_tracer::ExitTracer;
use vmnoise_tracer::host::{Host, Vm};
use vmnoise_workload::tsc;

use crate::exits_session::{ExitsOutcome, ExitsSession};
use crate::feed::address::FeedAddress;
use crate::feed::{Feeds, Second, rights};
use crate::interrupt::Interrupts;
use crate::loss_news::LossNews;

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
    feeds: Option<Feeds>,
    loss_news: LossNews,
    /// All kinds together, by the last drain.
    lost: u64,
}

impl<'a, 'v> ExitsMeasurement<'a, 'v> {
    /// Takes over attached programs that know the VMs there are.
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
            feeds: None,
            loss_news: LossNews::default(),
            lost: 0,
        }
    }

    /// Runs to the end of the duration, of the VM that was asked for, or to Ctrl-C.
    ///
    /// # Errors
    /// If what the programs write cannot be read.
    pub fn run(
        mut self,
        interrupts: &Interrupts,
        feeds: &[FeedAddress],
        detail: FeedDetail,
    ) -> Result<ExitsOutcome> {
        let began = self.anchor();
        self.tracer.count().context("starting to count")?;
        if !feeds.is_empty() {
            rights::drop_to_serve()?;
            self.feeds = Some(Feeds::new(feeds, detail, self.facts, began));
            if detail == FeedDetail::Full {
                self.session.sum_culprits();
            }
        }
        self.tell_clocks()?;
        let start = Instant::now();
        let end = start + Duration::from_nanos(self.facts.options.duration_ns);
        let mut next_period = start + PERIOD;
        let reason = loop {
            std::thread::sleep(TICK);
            let drained = self.drain()?;
            if let Some(feeds) = &mut self.feeds {
                feeds.tick();
            }
            self.tell_feeds();
            self.session.view().turn();
            let now = Instant::now();
            if now >= next_period {
                next_period += PERIOD;
                let vms = self.host.vms();
                let gone = self.is_gone(&vms);
                self.tracer.learn(vms.clone());
                let forgotten = self.tracer.forget_gone(&vms);
                forgotten.context("forgetting the VMs that are gone")?;
                self.tell_clocks()?;
                let counts = self.totals()?;
                self.feed(&vms, drained, &counts);
                self.session.period();
                if gone {
                    break FinishReason::Failed;
                }
            }
            if interrupts.asked_to_finish() || self.session.view().is_gone() {
                break FinishReason::Interrupt;
            }
            if now >= end {
                break FinishReason::Duration;
            }
        };
        self.session.view().end_live();
        // What is read afterwards is final.
        self.tracer.detach().context("stopping to count")?;
        let vms = self.host.vms();
        self.tracer.learn(vms.clone());
        self.tell_clocks()?;
        let drained = self.drain()?;
        let counts = self.totals()?;
        let mono_ns = drained.mono_ns;
        self.session
            .accept(&Event::Finish(Finish { reason, mono_ns }));
        self.feed(&vms, drained, &counts);
        if let Some(feeds) = &mut self.feeds {
            feeds.linger();
        }
        self.tell_feeds();
        let feeds = self.feeds.take().map(Feeds::finish);
        let mut outcome = self.session.finish();
        outcome.feeds = feeds.unwrap_or_default();
        Ok(outcome)
    }

    /// What is wrong with the feeds.
    fn tell_feeds(&mut self) {
        let notes = self.feeds.as_mut().map(Feeds::take_notes);
        for note in notes.unwrap_or_default() {
            self.session.view().notice(&note);
        }
    }

    /// Whether the one VM that was asked for has ended.
    fn is_gone(&mut self, vms: &[Vm]) -> bool {
        let filter = self.facts.options.exits.as_ref();
        let Some(wanted) = filter.and_then(|filter| filter.vm.as_ref()) else {
            return false;
        };
        let gone = !vms.iter().any(|vm| is_called(vm, wanted));
        if gone {
            let message = format!("VM `{wanted}` has ended; the result covers the time before");
            self.session.view().notice(&message);
        }
        gone
    }

    /// Takes what was told since the last call. The clock is read first: what ended before
    /// is in the ring by now, and what was lost before is counted. Returns the reading.
    fn drain(&mut self) -> Result<Anchor> {
        let anchor = self.anchor();
        let newcomers = self.tracer.newcomers().context("counting the vCPUs")?;
        if !newcomers.is_empty() {
            self.tracer.learn(self.host.vms_of(&newcomers));
            self.tell_clocks()?;
        }
        let session = &mut self.session;
        self.tracer
            .drain(&mut |event| session.accept(&event))
            .context("reading the BPF ring buffer")?;
        let losses = self.tracer.losses().context("reading the losses")?;
        self.lost = losses.iter().map(|loss| loss.count).sum();
        for loss in self.loss_news.of(losses) {
            session.accept(&Event::Loss(loss));
        }
        session.accept(&Event::Watermark(settled_ns(&anchor)));
        Ok(anchor)
    }

    /// What a join of this recording with a guest's goes by.
    fn tell_clocks(&mut self) -> Result<()> {
        let session = &mut self.session;
        self.tracer
            .tell_clocks(self.host, &mut |event| session.accept(&event))
            .context("telling the clocks of the guests")
    }

    /// Reads the clocks.
    fn anchor(&mut self) -> Anchor {
        let anchor = tsc::anchor();
        self.session.accept(&Event::Anchor(anchor));
        anchor
    }

    /// What was counted so far, and what was lost of it.
    fn totals(&mut self) -> Result<Counts> {
        let vcpus = self.tracer.read().context("reading the counts")?;
        for (vcpu, totals) in &vcpus {
            self.session.accept(&Event::Vcpu(vcpu.clone()));
            self.session.accept(&Event::VcpuTotals(totals.clone()));
        }
        Ok(Counts {
            vcpus,
            lost: self.lost,
        })
    }

    /// Tells the guests theirs. `drained` is when the stream was read, before the counts.
    fn feed(&mut self, vms: &[Vm], drained: Anchor, counts: &Counts) {
        let session = &self.session;
        if let Some(feeds) = &mut self.feeds {
            feeds.second(&Second {
                host: self.host,
                vms,
                counted: &counts.vcpus,
                anchor: drained,
                settled_mono_ns: settled_ns(&drained),
                lost: counts.lost,
                culprits: &|vcpu| session.culprits(vcpu),
            });
        }
    }
}

/// What the kernel has counted.
struct Counts {
    vcpus: Vec<(Vcpu, VcpuTotals)>,
    lost: u64,
}

/// Everything stamped until then was submitted when the clock was read.
fn settled_ns(anchor: &Anchor) -> u64 {
    anchor.mono_ns.saturating_sub(SUBMIT_SLACK_NS)
}

/// Whether people mean this VM by its name or the process id of its VMM.
pub fn is_called(vm: &Vm, wanted: &str) -> bool {
    vm.name == wanted || wanted.parse() == Ok(vm.pid)
}
