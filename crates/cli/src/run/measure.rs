//! The live loop, whatever is measured: drains a source from housekeeping CPUs 50 times a second,
//! has shown what came, and reacts to limits, until the run is over.

use std::time::{Duration, Instant};

use anyhow::Result;
use vmnoise_events::{FinishReason, RunFacts};

use super::reaction::OnThreshold;
use super::session::{Outcome, Session};
use crate::interrupt;
use vmnoise_rights::Work;

/// Drains and clock anchors are this far apart: 50 a second, so that no NTP slope
/// change goes unseen and no ring fills up.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// A BPF program may have stamped an event and not yet submitted it; it runs with
/// preemption off, so this is ample.
pub(super) const SUBMIT_SLACK_NS: u64 = 1_000_000;
/// What was recorded is flushed at least this often, however long a period is.
const FLUSH: Duration = Duration::from_secs(1);

/// What a run drains, and hands to its session event by event.
pub trait Source {
    /// What it still does once the programs are attached.
    fn works(&self) -> Vec<Work>;
    /// Lets it go, and throws away what comes of its warm-up. Returns when the run is to end, if
    /// that is not its duration later.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(&mut self, session: &mut Session<'_>) -> Result<Option<Instant>>;
    /// Hands over what came since the last call. Nothing is waited for.
    ///
    /// # Errors
    /// If nothing more can be known of the run.
    fn drain(&mut self, session: &mut Session<'_>) -> Result<()>;
    /// A period is over: hands over what is counted, and has it shown. Returns whether the period
    /// hit a limit.
    ///
    /// # Errors
    /// As [`Self::drain`].
    fn period(&mut self, session: &mut Session<'_>, since_start: Duration) -> Result<bool>;
    /// Why it has ended by itself, if it has.
    fn failure(&self) -> Option<String>;
    /// Stops it, and hands over what is outstanding, with the end of the run.
    ///
    /// # Errors
    /// As [`Self::drain`].
    fn end(&mut self, reason: FinishReason, session: &mut Session<'_>) -> Result<()>;
}

/// Runs to the end of the duration or of what is measured, to a limit that stops it, or to Ctrl-C.
/// Returns what it came to, and whether a limit stopped it, whose actions are still to be carried out.
///
/// # Errors
/// Those of the source.
pub fn measure(
    facts: &RunFacts,
    mut source: Box<dyn Source>,
    mut session: Session<'_>,
    on_threshold: &mut OnThreshold,
) -> Result<(Outcome, bool)> {
    let deadline = source.start(&mut session)?;
    let start = Instant::now();
    let end = deadline.unwrap_or(start + Duration::from_nanos(facts.options.duration_ns));
    let period = Duration::from_nanos(facts.options.period_ns);
    let mut next_period = start + period;
    let mut next_flush = start + FLUSH;
    session.shown().begin(facts);
    let reason = loop {
        std::thread::sleep(TICK);
        source.drain(&mut session)?;
        let now = Instant::now();
        let mut is_over_limit = false;
        if now >= next_period {
            next_period += period;
            // Periods in which this thread was stopped have nothing to show.
            if next_period < now {
                next_period = now + period;
            }
            is_over_limit = source.period(&mut session, now - start)?;
        }
        session.shown().turn();
        if now >= next_flush {
            next_flush += FLUSH;
            session.flush();
        }
        let hit = session.take_limit_hit(is_over_limit);
        let drawn_on = session.shown().draws_live();
        let stops = on_threshold.stops(hit, session.recent_trace(), drawn_on);
        for line in on_threshold.take_said() {
            session.shown().notice(&line);
        }
        if stops {
            break FinishReason::Stop;
        }
        if interrupt::was_asked() || session.shown().is_gone() {
            break FinishReason::Interrupt;
        }
        if let Some(why) = source.failure() {
            let message = format!("{why}; the result covers the time before");
            session.shown().notice(&message);
            break FinishReason::Failed;
        }
        if now >= end || session.shown().is_complete() {
            break FinishReason::Duration;
        }
    };
    // From here on Ctrl-C is a signal again.
    session.shown().end_live();
    source.end(reason, &mut session)?;
    Ok((session.finish(), reason == FinishReason::Stop))
}
