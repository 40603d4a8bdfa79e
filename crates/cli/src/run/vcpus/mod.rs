//! The live loop of `vmnoise exits`: what is counted and told in the kernel goes to the
//! session, until the run is over.

pub mod vm_finder;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Anchor, Event, FeedDetail, Finish, FinishReason, RunFacts, Vcpu, VcpuTotals};
use vmnoise_tracer::host::{Host, Vm};
use vmnoise_tracer::{ClockLook, ExitTracer};
use vmnoise_workload::tsc;

use self::vm_finder::{Found, VmFinder};
use crate::feed::sender::address::FeedAddress;
use crate::feed::sender::{Feeds, Second};
use crate::run::exits_session::{ExitsOutcome, ExitsSession};
use crate::run::interrupt::Interrupts;
use crate::run::loss_news::LossNews;

/// Between two drains, and two looks at the clock and at Ctrl-C.
const TICK: Duration = Duration::from_millis(20);
/// Between two tables, and two flushes of the recording.
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
    /// As they were found last.
    vms: Vec<Vm>,
    /// The clocks of their guests, where anybody needs them.
    clocks: Option<ClockLook>,
    feeds: Option<Feeds>,
    loss_news: LossNews,
    /// All kinds together, by the last drain.
    lost: u64,
}

impl<'a, 'v> ExitsMeasurement<'a, 'v> {
    /// Takes over attached programs that know the VMs there are: these.
    pub fn new(
        host: &'a Host,
        facts: &'a RunFacts,
        tracer: ExitTracer,
        session: ExitsSession<'a, 'v>,
        vms: Vec<Vm>,
    ) -> ExitsMeasurement<'a, 'v> {
        ExitsMeasurement {
            host,
            facts,
            tracer,
            session,
            vms,
            clocks: None,
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
        let with_clocks = self.tracer.tells_clocks() || !feeds.is_empty();
        // Before anything waits to be drained.
        let clocks = with_clocks.then(|| ClockLook::at(self.host));
        let began = self.anchor();
        self.tracer.count().context("starting to count")?;
        if !feeds.is_empty() {
            self.feeds = Some(Feeds::new(feeds, detail, self.facts, began));
            if detail == FeedDetail::Full {
                self.session.sum_culprits();
            }
        }
        // After the rights are given up: its thread has no others.
        let finder = self.start_finder(with_clocks)?;
        self.take_clocks(clocks)?;
        let start = Instant::now();
        let end = start + Duration::from_nanos(self.facts.options.duration_ns);
        let mut next_period = start + PERIOD;
        let reason = loop {
            std::thread::sleep(TICK);
            let drained = self.drain(&finder)?;
            if let Some(feeds) = &mut self.feeds {
                feeds.tick();
            }
            self.tell_feeds();
            self.session.view().turn();
            let now = Instant::now();
            if now >= next_period {
                next_period += PERIOD;
                let counts = self.totals()?;
                self.feed(drained, &counts);
                self.session.period();
                if self.is_gone() {
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
        self.drain(&finder)?;
        self.finish_finder(finder)?;
        let drained = self.drain_told()?;
        let counts = self.totals()?;
        let mono_ns = drained.mono_ns;
        self.session
            .accept(&Event::Finish(Finish { reason, mono_ns }));
        self.feed(drained, &counts);
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
    fn is_gone(&mut self) -> bool {
        let filter = self.facts.options.exits.as_ref();
        let Some(wanted) = filter.and_then(|filter| filter.vm.as_ref()) else {
            return false;
        };
        let gone = !self.vms.iter().any(|vm| is_called(vm, wanted));
        if gone {
            let message = format!("VM `{wanted}` has ended; the result covers the time before");
            self.session.view().notice(&message);
        }
        gone
    }

    fn start_finder(&self, with_clocks: bool) -> Result<VmFinder> {
        let finder = VmFinder::start(self.host, with_clocks);
        let finder = finder.context("starting the thread that looks for VMs")?;
        finder.look_at(self.vms.iter().map(|vm| vm.pid).collect());
        Ok(finder)
    }

    /// Takes what was found since the last call.
    fn take_found(&mut self, found: Found) -> Result<()> {
        self.tracer.learn(&found.looked_at, found.named);
        let forgotten = self.tracer.forget_gone(&found.vms);
        forgotten.context("forgetting the VMs that are gone")?;
        self.vms = found.vms;
        self.take_clocks(found.clocks)
    }

    /// Tells what a join of this recording with a guest's goes by.
    fn take_clocks(&mut self, clocks: Option<ClockLook>) -> Result<()> {
        if let Some(look) = &clocks {
            let session = &mut self.session;
            self.tracer
                .tell_clocks(look, &mut |event| session.accept(&event))
                .context("telling the clocks of the guests")?;
        }
        self.clocks = clocks;
        Ok(())
    }

    /// Learns who came last.
    fn finish_finder(&mut self, finder: VmFinder) -> Result<()> {
        let (found, in_time) = finder.finish();
        if !in_time {
            let message = "/proc or debugfs does not answer: some VMs may be called by their processes \
                           alone, and changes of their guests' clocks are missing";
            self.session.view().notice(message);
        }
        found
            .into_iter()
            .try_for_each(|found| self.take_found(found))
    }

    /// Hears who came, and takes what was told since the last call. Returns when.
    fn drain(&mut self, finder: &VmFinder) -> Result<Anchor> {
        let newcomers = self.tracer.newcomers().context("counting the vCPUs")?;
        if !newcomers.is_empty() {
            finder.look_at(newcomers);
        }
        for found in finder.found() {
            self.take_found(found)?;
        }
        self.drain_told()
    }

    /// Takes what was told since the last call. The clock is read first: what ended before
    /// is in the ring by now, and what was lost before is counted. Returns the reading.
    fn drain_told(&mut self) -> Result<Anchor> {
        let anchor = self.anchor();
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
    fn feed(&mut self, drained: Anchor, counts: &Counts) {
        let session = &self.session;
        if let Some(feeds) = &mut self.feeds {
            feeds.second(&Second {
                host: self.host,
                vms: &self.vms,
                clocks: self.clocks.as_ref(),
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
