//! Finds the work of the host during exits.

use std::collections::{BTreeMap, BTreeSet};

use vmnoise_events::{Activity, ActivityKind, Share, SourceId};

use super::place::{State, Stretch};
use crate::part::Part;
use crate::piece::Piece;
use crate::sweep::Sweep;
use crate::timeline::Timeline;
use crate::visibility::share_of_host;

/// Host work during one exit, as far as the stream reports it.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// The host's activities and the net time of each in the exit. An activity that spans two
    /// segments is listed once.
    pub(super) noise: Vec<(Activity, u64)>,
    /// Sleeps of the vCPU's thread, by the task that ended each sleep.
    pub(super) sleeps: Vec<Part>,
    /// Pieces of the exit in time order; empty if not requested.
    pub(super) pieces: Vec<Piece>,
}

/// One exit to explain.
#[derive(Debug)]
pub(super) struct Due<'a> {
    pub(super) stretches: &'a [Stretch],
    /// Thread id of the vCPU. The time in which this thread ran is part of the exit, not work of
    /// the host.
    pub(super) tid: u32,
    pub(super) with_pieces: bool,
}

/// Maximum number of CPUs without new events that one call of [`HostWork::forget`] cleans up.
const AT_A_TIME: usize = 64;

/// Recent activities of the host's CPUs.
#[derive(Debug, Default)]
pub(super) struct HostWork {
    cpus: BTreeMap<u32, Timeline>,
    /// CPUs with events since the last call of [`Self::forget`].
    heard: BTreeSet<u32>,
    /// Number of the first CPU without new events that the next call cleans up.
    turn: u32,
    /// Scratch memory: activities of the next sweep.
    swept: Vec<Activity>,
    sweep: Sweep,
}

impl HostWork {
    pub(super) fn push(&mut self, activity: Activity) {
        self.cpus.entry(activity.cpu).or_default().push(activity);
        self.heard.insert(activity.cpu);
    }

    /// Returns the number of activities left out because too many ran at once.
    pub(super) fn crowded(&self) -> u64 {
        self.cpus.values().map(Timeline::crowded).sum()
    }

    /// Forgets activities that ended by `until_ns`. All events before `horizon_ns` must have
    /// arrived. A call visits the CPUs with recent events, and a few other CPUs in turn. A stream
    /// may name thousands of CPUs once and then send many watermarks, so a call must not visit all
    /// CPUs.
    pub(super) fn forget(&mut self, until_ns: u64, horizon_ns: u64) {
        let turn = self.cpus.range(self.turn..).map(|(cpu, _)| *cpu);
        let turn: Vec<u32> = turn.take(AT_A_TIME + 1).collect();
        self.turn = turn.get(AT_A_TIME).copied().unwrap_or(0);
        let heard = std::mem::take(&mut self.heard);
        for cpu in heard.into_iter().chain(turn) {
            if let Some(timeline) = self.cpus.get_mut(&cpu) {
                timeline.begin_pass(horizon_ns);
                timeline.end_pass(until_ns);
            }
        }
    }

    /// Returns the work of the host in each of these exits, in order. All events before
    /// `horizon_ns` must have arrived, and the exits must have ended by then. `tid_of` returns the
    /// thread id of a source.
    pub(super) fn overlay(
        &mut self,
        dues: &[Due<'_>],
        horizon_ns: u64,
        tid_of: impl Fn(SourceId) -> Option<u32>,
    ) -> Vec<Overlay> {
        let mut overlay: Vec<Overlay> = dues.iter().map(|_| Overlay::default()).collect();
        let stretches = dues.iter().enumerate();
        let mut jobs: Vec<(&Stretch, usize)> = stretches
            .flat_map(|(place, due)| due.stretches.iter().map(move |stretch| (stretch, place)))
            .collect();
        jobs.sort_by_key(|(stretch, place)| (stretch.cpu, stretch.start_ns, *place));
        let mut idle = Timeline::default();
        for jobs in jobs.chunk_by(|(a, _), (b, _)| a.cpu == b.cpu) {
            let timeline = self.cpus.get_mut(&jobs[0].0.cpu).unwrap_or(&mut idle);
            timeline.begin_pass(horizon_ns);
            for (stretch, place) in jobs {
                let due = &dues[*place];
                let overlapping = timeline.overlapping(stretch.start_ns, stretch.end_ns);
                self.swept.clear();
                self.swept.extend(
                    overlapping
                        .iter()
                        .filter(|activity| meets(stretch.state, activity.kind))
                        .filter(|activity| {
                            let is_run = activity.kind == ActivityKind::Thread;
                            !(is_run && tid_of(activity.source) == Some(due.tid))
                        }),
                );
                let overlay = &mut overlay[*place];
                let left_ns = overlay_under(stretch, &self.swept, &mut self.sweep, |piece| {
                    if due.with_pieces {
                        overlay.pieces.push(piece);
                    }
                });
                let owned = self.swept.iter().zip(self.sweep.net_ns());
                let owned = owned.filter(|(_, net_ns)| **net_ns > 0);
                overlay
                    .noise
                    .extend(owned.map(|(activity, net_ns)| (*activity, *net_ns)));
                if stretch.state == State::Blocked {
                    overlay
                        .sleeps
                        .push(Part::of_one(Share::Blocked, stretch.waker, left_ns));
                }
            }
        }
        overlay.iter_mut().for_each(Overlay::tidy);
        overlay
    }
}

impl Overlay {
    /// Sorts activities and pieces by time, and adds up the times of an activity that spans several
    /// segments.
    fn tidy(&mut self) {
        let order = |activity: &Activity| {
            (
                activity.end_mono_ns,
                activity.start_mono_ns,
                activity.cpu,
                activity.kind,
                activity.source,
            )
        };
        self.noise.sort_by_key(|(activity, _)| order(activity));
        self.noise.dedup_by(|again, first| {
            let same = again.0 == first.0;
            if same {
                first.1 += again.1;
            }
            same
        });
        self.pieces.sort_by_key(|piece| piece.start_mono_ns);
    }
}

/// Returns whether host work of this kind affects a thread in this state.
fn meets(state: State, kind: ActivityKind) -> bool {
    match kind {
        ActivityKind::Nmi | ActivityKind::Irq | ActivityKind::Softirq => state != State::Halted,
        ActivityKind::Thread | ActivityKind::Throttled => state == State::Waiting,
        ActivityKind::Exit | ActivityKind::Vmm | ActivityKind::Blocked | ActivityKind::Stopped => {
            false
        }
    }
}

/// Passes each piece of the segment to `on_piece`. Returns the time of the segment that no activity
/// owns, in nanoseconds.
fn overlay_under(
    stretch: &Stretch,
    activities: &[Activity],
    sweep: &mut Sweep,
    mut on_piece: impl FnMut(Piece),
) -> u64 {
    let (start_ns, end_ns) = (stretch.start_ns, stretch.end_ns);
    sweep.slice(
        start_ns,
        end_ns,
        activities,
        |owner, start_mono_ns, end_mono_ns| {
            let (share, source, since_ns) = match owner.map(|owner| &activities[owner]) {
                Some(it) => (share_of_host(it.kind), Some(it.source), it.start_mono_ns),
                None => (stretch.state.share(), stretch.waker, stretch.start_ns),
            };
            on_piece(Piece {
                start_mono_ns,
                end_mono_ns,
                cpu: stretch.cpu,
                share,
                source,
                since_ns,
                waits: stretch.state == State::Waiting,
            });
        },
    )
}
