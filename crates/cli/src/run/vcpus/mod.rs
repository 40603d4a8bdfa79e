//! What is drained where the exits of vCPUs are counted: what the kernel counts and tells, and what is
//! found out about its VMs. Guests get theirs.

pub mod probe_status;
mod vm_finder;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Anchor, Event, FeedDetail, Finish, FinishReason, RunFacts};
use vmnoise_feed::FeedAddress;
use vmnoise_host::{Host, Vm};
use vmnoise_tracer::{ClockLook, ExitTracer, KnownVms, VmSearch};
use vmnoise_workload::tsc;

use self::vm_finder::{Found, VmFinder};
use super::loss_news::LossNews;
use super::measure::{SUBMIT_SLACK_NS, Source};
use super::session::Session;
use crate::feed::sender::{Feeds, Second};
use vmnoise_rights::Work;

/// Attached programs, and the VMs that they are about.
pub struct Vcpus {
    host: Host,
    facts: RunFacts,
    tracer: ExitTracer,
    /// Where guests are told theirs, and how much.
    feed_options: (Vec<FeedAddress>, FeedDetail),
    /// As they were found last.
    vms: Vec<Vm>,
    finder: Option<VmFinder>,
    /// The clocks of their guests, where anybody needs them.
    clocks: Option<ClockLook>,
    feeds: Option<Feeds>,
    /// The clocks as the ring was drained last.
    drained: Anchor,
    loss_news: LossNews,
    /// All kinds together, by the last drain.
    lost: u64,
    /// Whether the one VM that was asked for has ended.
    is_gone: bool,
}

impl Source for Vcpus {
    fn works(&self) -> Vec<Work> {
        let (feeds, _) = &self.feed_options;
        let serves = (!feeds.is_empty()).then_some(Work::ServeGuests);
        [Work::CountExits].into_iter().chain(serves).collect()
    }

    fn start(&mut self, session: &mut Session<'_>) -> Result<Option<Instant>> {
        let (feeds, detail) = &self.feed_options;
        let began = anchor(session);
        self.tracer.count().context("starting to count")?;
        if !feeds.is_empty() {
            self.feeds = Some(Feeds::new(feeds, *detail, &self.facts, began));
            if *detail == FeedDetail::Full {
                session.sum_culprits();
            }
        }
        let clocks = self.clocks.take();
        self.take_clocks(session, clocks)?;
        Ok(None)
    }

    fn drain(&mut self, session: &mut Session<'_>) -> Result<()> {
        self.hear_of_newcomers(session)?;
        self.drain_ring(session)?;
        if let Some(feeds) = &mut self.feeds {
            feeds.tick();
        }
        self.report_of_feeds(session);
        Ok(())
    }

    fn period(&mut self, session: &mut Session<'_>, since_start: Duration) -> Result<bool> {
        self.count(session, None)?;
        session.period(since_start, &[]);
        self.is_gone = self.wanted().is_some_and(|wanted| {
            let mut vms = self.vms.iter();
            !vms.any(|vm| is_called(vm, wanted))
        });
        Ok(false)
    }

    fn failure(&self) -> Option<String> {
        let wanted = self.wanted().filter(|_| self.is_gone)?;
        Some(format!("VM `{wanted}` has ended"))
    }

    fn end(&mut self, reason: FinishReason, session: &mut Session<'_>) -> Result<()> {
        // What is read afterwards is final.
        self.tracer.detach().context("stopping to count")?;
        self.hear_of_newcomers(session)?;
        self.drain_ring(session)?;
        self.finish_finder(session)?;
        self.drain_ring(session)?;
        let mono_ns = self.drained.mono_ns;
        self.count(session, Some(Finish { reason, mono_ns }))?;
        if let Some(feeds) = &mut self.feeds {
            feeds.linger();
        }
        self.report_of_feeds(session);
        let feeds = self.feeds.take().map(Feeds::finish);
        session.report_feeds(feeds.unwrap_or_default());
        Ok(())
    }
}

impl Vcpus {
    /// Takes over attached programs that know the VMs there are: these, found by this. Guests get theirs over
    /// these sockets, in this detail. Call it with the rights that finding VMs takes.
    ///
    /// # Errors
    /// If there is no room for a thread.
    pub fn new(
        host: &Host,
        facts: &RunFacts,
        tracer: ExitTracer,
        search: VmSearch,
        vms: Vec<Vm>,
        feeds: &[FeedAddress],
        detail: FeedDetail,
    ) -> Result<Vcpus> {
        let with_clocks = tracer.reports_clocks() || !feeds.is_empty();
        let processes: Vec<u32> = vms.iter().map(|vm| vm.pid).collect();
        let mut known = KnownVms::new(search);
        known.look_at(&processes);
        // Before anything waits to be drained, and before the right to look is given up.
        let clocks = with_clocks.then(|| ClockLook::at(&known));
        let finder = VmFinder::start(known, with_clocks, processes);
        let finder = finder.context("starting the thread that looks for VMs")?;
        Ok(Vcpus {
            host: host.clone(),
            facts: facts.clone(),
            tracer,
            feed_options: (feeds.to_vec(), detail),
            vms,
            finder: Some(finder),
            clocks,
            feeds: None,
            drained: tsc::anchor(),
            loss_news: LossNews::default(),
            lost: 0,
            is_gone: false,
        })
    }

    /// The one VM that was asked for.
    fn wanted(&self) -> Option<&str> {
        self.facts.options.exits.as_ref()?.vm.as_deref()
    }

    /// What is wrong with the feeds.
    fn report_of_feeds(&mut self, session: &mut Session<'_>) {
        let notes = self.feeds.as_mut().map(Feeds::take_notes);
        for note in notes.unwrap_or_default() {
            session.shown().notice(&note);
        }
    }

    /// Takes what was found since the last call.
    fn take_found(&mut self, session: &mut Session<'_>, found: Found) -> Result<()> {
        self.tracer.learn(&found.looked_at, found.named);
        let forgotten = self.tracer.forget_gone(&found.vms);
        forgotten.context("forgetting the VMs that are gone")?;
        self.vms = found.vms;
        self.take_clocks(session, found.clocks)
    }

    /// Says what a join of this recording with a guest's goes by.
    fn take_clocks(&mut self, session: &mut Session<'_>, clocks: Option<ClockLook>) -> Result<()> {
        if let Some(look) = &clocks {
            self.tracer
                .report_clocks(look, &mut |event| session.accept(&event))
                .context("telling the clocks of the guests")?;
        }
        self.clocks = clocks;
        Ok(())
    }

    /// Learns who came last.
    fn finish_finder(&mut self, session: &mut Session<'_>) -> Result<()> {
        let Some(finder) = self.finder.take() else {
            return Ok(());
        };
        let (found, in_time) = finder.finish();
        if !in_time {
            let message = "/proc or debugfs does not answer: some VMs may be called by their processes \
                           alone, and changes of their guests' clocks are missing";
            session.shown().notice(message);
        }
        found
            .into_iter()
            .try_for_each(|found| self.take_found(session, found))
    }

    /// Hears who came since the last call, and what was found out about those before.
    fn hear_of_newcomers(&mut self, session: &mut Session<'_>) -> Result<()> {
        let newcomers = self.tracer.newcomers().context("counting the vCPUs")?;
        let Some(finder) = &self.finder else {
            return Ok(());
        };
        if !newcomers.is_empty() {
            finder.look_at(newcomers);
        }
        let found: Vec<Found> = finder.found().collect();
        found
            .into_iter()
            .try_for_each(|found| self.take_found(session, found))
    }

    /// Takes what was reported since the last call. The clock is read first: what ended before
    /// is in the ring by now, and what was lost before is counted.
    fn drain_ring(&mut self, session: &mut Session<'_>) -> Result<()> {
        self.drained = anchor(session);
        self.tracer
            .drain(&mut |event| session.accept(&event))
            .context("reading the BPF ring buffer")?;
        let losses = self.tracer.losses().context("reading the losses")?;
        self.lost = losses.iter().map(|loss| loss.count).sum();
        for loss in self.loss_news.of(losses) {
            session.accept(&Event::Loss(loss));
        }
        session.accept(&Event::Watermark(settled_ns(&self.drained)));
        Ok(())
    }

    /// Hands over what was counted so far and, after the last count, the end of the run. Then tells the
    /// guests theirs.
    fn count(&mut self, session: &mut Session<'_>, finish: Option<Finish>) -> Result<()> {
        let counted = self.tracer.read().context("reading the counts")?;
        for (vcpu, totals) in &counted {
            session.accept(&Event::Vcpu(vcpu.clone()));
            session.accept(&Event::VcpuTotals(totals.clone()));
        }
        if let Some(finish) = finish {
            session.accept(&Event::Finish(finish));
        }
        if let Some(feeds) = &mut self.feeds {
            feeds.second(&Second {
                host: &self.host,
                vms: &self.vms,
                clocks: self.clocks.as_ref(),
                counted: &counted,
                anchor: self.drained,
                settled_mono_ns: settled_ns(&self.drained),
                lost: self.lost,
                culprits: &|vcpu| session.culprits(vcpu),
            });
        }
        Ok(())
    }
}

/// Reads the clocks.
fn anchor(session: &mut Session<'_>) -> Anchor {
    let anchor = tsc::anchor();
    session.accept(&Event::Anchor(anchor));
    anchor
}

/// Everything stamped until then was submitted when the clock was read.
fn settled_ns(anchor: &Anchor) -> u64 {
    anchor.mono_ns.saturating_sub(SUBMIT_SLACK_NS)
}

/// Whether people mean this VM by its name or the process id of its VMM.
pub fn is_called(vm: &Vm, wanted: &str) -> bool {
    vm.name == wanted || wanted.parse() == Ok(vm.pid)
}
