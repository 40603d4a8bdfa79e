//! Source of a run over vCPUs: drains exits and counters, finds the VMs, and feeds the guests.

pub mod probe_status;
mod vm_finder;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Anchor, Event, FeedDetail, Finish, FinishReason, RunFacts};
use vmnoise_feed::FeedAddress;
use vmnoise_host::{Host, VmProcess};
use vmnoise_rights::AttachedWork;
use vmnoise_tracer::{ClockLook, ExitTracer, KnownVms, VmSearch};
use vmnoise_workload::tsc;

use self::vm_finder::{FoundVms, VmFinder};
use super::loss_news::LossNews;
use super::measure::{EventSource, SUBMIT_SLACK_NS};
use super::session::Session;
use crate::feed::sender::{Feeds, Second};

/// Attached BPF programs, and the VMs that they watch.
#[derive(Debug)]
pub struct ExitProbes {
    host: Host,
    facts: RunFacts,
    tracer: ExitTracer,
    /// Sockets of the guests' feeds, and the detail of the feeds.
    feed_options: (Vec<FeedAddress>, FeedDetail),
    /// VMs that the last search found.
    vms: Vec<VmProcess>,
    finder: Option<VmFinder>,
    /// Clocks of the guests, if the recording or a feed needs them.
    clocks: Option<ClockLook>,
    feeds: Option<Feeds>,
    /// Clock reading of the last drain.
    drained: Anchor,
    loss_news: LossNews,
    /// Number of losses of all kinds up to the last drain.
    lost: u64,
    /// Whether the VM that the user asked for has ended.
    is_gone: bool,
}

impl EventSource for ExitProbes {
    fn works(&self) -> Vec<AttachedWork> {
        let (feeds, _) = &self.feed_options;
        let serves = (!feeds.is_empty()).then_some(AttachedWork::ServeGuests);
        [AttachedWork::CountExits]
            .into_iter()
            .chain(serves)
            .collect()
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
        // Counters that are read after this call are final.
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

impl ExitProbes {
    /// Takes over attached BPF programs that already know the present VMs, `vms`, which `search`
    /// found. `feeds` are the sockets of the guests' feeds, and `detail` is their detail. The
    /// caller needs the rights to find VMs.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new(
        host: &Host,
        facts: &RunFacts,
        tracer: ExitTracer,
        search: VmSearch,
        vms: Vec<VmProcess>,
        feeds: &[FeedAddress],
        detail: FeedDetail,
    ) -> Result<ExitProbes> {
        let with_clocks = tracer.reports_clocks() || !feeds.is_empty();
        let processes: Vec<u32> = vms.iter().map(|vm| vm.pid).collect();
        let mut known = KnownVms::new(search);
        known.look_at(&processes);
        // The clocks are read before the ring fills, and before the process gives up the right to
        // read them.
        let clocks = with_clocks.then(|| ClockLook::at(&known));
        let finder = VmFinder::start(known, with_clocks, processes);
        let finder = finder.context("starting the thread that looks for VMs")?;
        Ok(ExitProbes {
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

    /// Returns the VM that the user asked for, if any.
    fn wanted(&self) -> Option<&str> {
        self.facts.options.exits.as_ref()?.vm.as_deref()
    }

    /// Shows the problems of the feeds.
    fn report_of_feeds(&mut self, session: &mut Session<'_>) {
        let notes = self.feeds.as_mut().map(Feeds::take_notes);
        for note in notes.unwrap_or_default() {
            session.shown().notice(&note);
        }
    }

    /// Takes over the result of a search for VMs.
    fn take_found(&mut self, session: &mut Session<'_>, found: FoundVms) -> Result<()> {
        self.tracer.learn(&found.looked_at, found.named);
        let forgotten = self.tracer.forget_gone(&found.vms);
        forgotten.context("forgetting the VMs that are gone")?;
        self.vms = found.vms;
        self.take_clocks(session, found.clocks)
    }

    /// Reports the guests' clocks. A join of this recording with a guest's recording needs them.
    fn take_clocks(&mut self, session: &mut Session<'_>, clocks: Option<ClockLook>) -> Result<()> {
        if let Some(look) = &clocks {
            self.tracer
                .report_clocks(look, &mut |event| session.accept(&event))
                .context("reporting the clocks of the guests")?;
        }
        self.clocks = clocks;
        Ok(())
    }

    /// Takes over the last results of the finder.
    fn finish_finder(&mut self, session: &mut Session<'_>) -> Result<()> {
        let Some(finder) = self.finder.take() else {
            return Ok(());
        };
        let (found, in_time) = finder.finish();
        if !in_time {
            let message = "/proc or debugfs does not answer: some VMs may have only the name of \
                           their process, and changes of their guests' clocks are missing";
            session.shown().notice(message);
        }
        found
            .into_iter()
            .try_for_each(|found| self.take_found(session, found))
    }

    /// Asks the finder about new vCPUs, and takes over the finder's results since the last call.
    fn hear_of_newcomers(&mut self, session: &mut Session<'_>) -> Result<()> {
        let newcomers = self.tracer.newcomers().context("counting the vCPUs")?;
        let Some(finder) = &self.finder else {
            return Ok(());
        };
        if !newcomers.is_empty() {
            finder.look_at(newcomers);
        }
        let found: Vec<FoundVms> = finder.found().collect();
        found
            .into_iter()
            .try_for_each(|found| self.take_found(session, found))
    }

    /// Drains the ring. The clock is read first. Records of everything that ended before this
    /// reading are then already in the ring, and earlier losses are counted.
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

    /// Hands over the present counters, and then `finish` if this is the last count. At the end,
    /// sends the guests their counters.
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

/// Reads the clocks, and records the reading.
fn anchor(session: &mut Session<'_>) -> Anchor {
    let anchor = tsc::anchor();
    session.accept(&Event::Anchor(anchor));
    anchor
}

/// Returns the time up to which all events had been submitted when the clock was read.
fn settled_ns(anchor: &Anchor) -> u64 {
    anchor.mono_ns.saturating_sub(SUBMIT_SLACK_NS)
}

/// Returns whether `wanted` is the name of this VM or the process id of its VMM.
pub fn is_called(vm: &VmProcess, wanted: &str) -> bool {
    vm.name == wanted || wanted.parse() == Ok(vm.pid)
}
