//! Loop of every live run, on the housekeeping CPUs. Until the run is over, the loop drains a
//! source 50 times a second, updates the views, and reacts to limits.

use std::time::{Duration, Instant};

use anyhow::Result;
use vmnoise_console::interrupt;
use vmnoise_events::{FinishReason, RunFacts};
use vmnoise_rights::AttachedWork;
use vmnoise_views::Watcher;

use super::reaction::OnThreshold;
use super::session::{Session, SessionOutcome};

/// Time between two drains, each with a clock anchor. At 50 drains a second, the anchors show every
/// change of the clock rate by NTP, and no ring fills up.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// Longest time between the timestamp of an event and its submission by the BPF program. The
/// program runs with preemption disabled, so 1 ms is more than enough.
pub(super) const SUBMIT_SLACK_NS: u64 = 1_000_000;
/// Longest time between two flushes of the recording, even if a period is longer.
const FLUSH: Duration = Duration::from_secs(1);

/// Source of a run's events. It hands the events to the session.
pub trait EventSource {
    /// Returns the work that remains after the BPF programs are attached. This work decides which
    /// rights are kept.
    fn works(&self) -> Vec<AttachedWork>;
    /// Starts the measurement and discards its warm-up. Returns the time at which the run must end;
    /// `None` if it must end one duration after this call returns.
    ///
    /// # Errors
    /// If the source cannot be started.
    fn start(&mut self, session: &mut Session<'_>) -> Result<Option<Instant>>;
    /// Hands over the events since the last call, without waiting.
    ///
    /// # Errors
    /// If the source can deliver nothing more.
    fn drain(&mut self, session: &mut Session<'_>) -> Result<()>;
    /// Ends a period: hands over the counters and has the period shown. Returns whether the period
    /// hit a limit.
    ///
    /// # Errors
    /// As [`Self::drain`].
    fn period(&mut self, session: &mut Session<'_>, since_start: Duration) -> Result<bool>;
    /// Returns why the source has ended by itself; `None` while it runs.
    fn failure(&self) -> Option<String>;
    /// Stops the source, and hands over the rest of the events and the end of the run.
    ///
    /// # Errors
    /// As [`Self::drain`].
    fn end(&mut self, reason: FinishReason, session: &mut Session<'_>) -> Result<()>;
}

/// Runs until the duration has passed, the source ends, a limit stops the run, or the user ends it.
/// Returns the outcome, and whether a limit stopped the run. The caller must carry out the actions
/// of this limit.
///
/// # Errors
/// The errors of the source.
pub fn measure(
    facts: &RunFacts,
    mut source: Box<dyn EventSource>,
    mut session: Session<'_>,
    on_threshold: &mut OnThreshold,
) -> Result<(SessionOutcome, bool)> {
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
            // Periods that passed while this thread was stopped are skipped, because they have
            // nothing to show.
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
        let ends = session.shown().ends();
        if interrupt::was_asked() || ends == Some(FinishReason::Interrupt) {
            break FinishReason::Interrupt;
        }
        if let Some(why) = source.failure() {
            let message = format!("{why}; the result covers the time before");
            session.shown().notice(&message);
            break FinishReason::Failed;
        }
        if now >= end || ends == Some(FinishReason::Duration) {
            break FinishReason::Duration;
        }
    };
    // From here on, the terminal sends Ctrl-C as a signal again, not as a key.
    session.shown().end_live();
    source.end(reason, &mut session)?;
    Ok((session.finish(), reason == FinishReason::Stop))
}
