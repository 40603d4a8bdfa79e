//! What the vCPUs of a pair went through: exits, gaps and pauses, in ideal time.

use super::clocks::Dice;
use super::pairs::RecordingPlan;

const US: u64 = 1_000;
/// The workload polls a part of each of these.
pub const PERIOD_NS: u64 = 100_000_000;

/// A stretch of ideal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeSpan {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl LifeSpan {
    pub fn holds(&self, at_ns: u64) -> bool {
        self.start_ns <= at_ns && at_ns < self.end_ns
    }
}

/// When a vCPU of the guest is on the host that records, in ideal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VcpuStay {
    /// All the time.
    Always,
    /// Until then: the VM was moved to another host, which nobody recorded.
    Until(u64),
    /// From then on: the VM was moved here.
    From(u64),
    /// All the time, but from then on the host reports the vCPU under another id.
    OtherIdFrom(u64),
    /// All the time, but from then on the vCPU has another thread, and so another id.
    OtherThreadFrom(u64),
}

impl VcpuStay {
    /// Whether the host reports this exit, and whether under the other id. One that is under way at the change is
    /// never reported: its begin or its end was not seen.
    pub fn reports(self, exit: &LifeSpan) -> Option<bool> {
        match self {
            VcpuStay::Always => Some(false),
            VcpuStay::Until(at_ns) => (exit.end_ns <= at_ns).then_some(false),
            VcpuStay::From(at_ns) => (at_ns <= exit.start_ns).then_some(false),
            VcpuStay::OtherIdFrom(at_ns) | VcpuStay::OtherThreadFrom(at_ns) => {
                match exit.end_ns <= at_ns {
                    true => Some(false),
                    false => (at_ns <= exit.start_ns).then_some(true),
                }
            }
        }
    }

    /// Returns whether the host reports the vCPU as two vCPUs, one after the other.
    pub fn is_of_two(self) -> bool {
        matches!(
            self,
            VcpuStay::OtherIdFrom(_) | VcpuStay::OtherThreadFrom(_)
        )
    }
}

/// What one vCPU went through.
#[derive(Debug, Clone, Default)]
pub struct Life {
    /// Which VM.
    pub vm: u32,
    /// Its number there.
    pub number: u32,
    /// Exits that were reported.
    pub exits: Vec<LifeSpan>,
    /// Exits whose records were lost.
    pub lost_exits: Vec<LifeSpan>,
    /// Gaps that were recorded, of the guest's time.
    pub gaps: Vec<LifeSpan>,
    /// All holes in the workload's time, also those lost or too short.
    pub away: Vec<LifeSpan>,
    /// When it paused.
    pub pauses: Vec<LifeSpan>,
    /// Holes that began while it paused.
    unfelt: Vec<LifeSpan>,
    /// Lengths of the longest exits of gaps that come at no period.
    pub irregular: Vec<u64>,
    /// Gaps that found no room.
    pub gaps_lost: usize,
}

impl Life {
    pub fn of(plan: &RecordingPlan, vm: u32, number: u32, place: u64) -> Life {
        let mut dice = Dice(plan.seed.wrapping_add(place << 32));
        let mut life = Life {
            vm,
            number,
            ..Life::default()
        };
        let mut stops = plan.clocks.stops.iter().peekable();
        let end_ns = plan.guest.1.max(plan.host.1);
        let mut at_ns = dice.roll(0, plan.run_ns.1);
        while at_ns < end_ns {
            if let Some(stop) = stops.next_if(|stop| stop.from_ns <= at_ns + plan.exit_ns.1 * 2) {
                life.is_kept(
                    plan,
                    &mut dice,
                    stop.from_ns,
                    &[(0, stop.to_ns - stop.from_ns)],
                );
                at_ns = stop.to_ns;
            } else {
                let len_ns = dice.roll(plan.exit_ns.0, plan.exit_ns.1);
                let exits = match () {
                    () if dice.percent(plan.own_percent) && dice.percent(60) => vec![],
                    // The guest's own work, with exits in it.
                    () if dice.percent(plan.own_percent) => {
                        let part_ns = len_ns / 5;
                        vec![(part_ns, part_ns), (3 * part_ns, part_ns)]
                    }
                    () => vec![(0, len_ns)],
                };
                life.is_kept(plan, &mut dice, at_ns, &exits);
                if exits.is_empty() {
                    life.is_away(plan, &mut dice, at_ns, at_ns + len_ns);
                }
                at_ns += len_ns;
            }
            at_ns += 60 * US + dice.roll(plan.run_ns.0, plan.run_ns.1);
        }
        life.find_pauses(plan);
        life
    }

    /// From `at_ns` on there are these exits: how long after it, and how long.
    fn is_kept(&mut self, plan: &RecordingPlan, dice: &mut Dice, at_ns: u64, exits: &[(u64, u64)]) {
        let (Some(first), Some(last)) = (exits.first(), exits.last()) else {
            return;
        };
        for (after_ns, len_ns) in exits {
            let span = LifeSpan {
                start_ns: at_ns + after_ns,
                end_ns: at_ns + after_ns + len_ns,
            };
            match dice.percent(plan.lost_percent) {
                true => self.lost_exits.push(span),
                false => self.exits.push(span),
            }
        }
        // The way out and in again is nobody's; after some the guest has work of its own.
        let way_ns = dice.roll(50, 2_000);
        let own_ns = if dice.percent(30) {
            dice.roll(0, 20 * US)
        } else {
            0
        };
        let back_ns = dice.roll(50, 2_000) + own_ns;
        let start_ns = (at_ns + first.0).saturating_sub(way_ns);
        self.is_away(plan, dice, start_ns, at_ns + last.0 + last.1 + back_ns);
    }

    fn is_away(&mut self, plan: &RecordingPlan, dice: &mut Dice, start_ns: u64, end_ns: u64) {
        let span = LifeSpan { start_ns, end_ns };
        if start_ns < plan.guest.0 || end_ns > plan.guest.1 {
            return;
        }
        if start_ns >= pause_of(plan, start_ns) {
            self.unfelt.push(span);
            return;
        }
        self.away.push(span);
        let stopped = plan.clocks.is_stopped(start_ns, end_ns);
        let felt_ns = plan.clocks.guest_mono_ns(end_ns) - plan.clocks.guest_mono_ns(start_ns);
        if felt_ns >= plan.threshold_ns && (stopped || !dice.percent(plan.lost_percent)) {
            self.gaps.push(span);
        }
    }

    /// When the workload paused, now that all holes are known: a hole that it observed delays the
    /// pause, one that it did not observe the end of it.
    fn find_pauses(&mut self, plan: &RecordingPlan) {
        let wakes = (plan.guest.0..plan.guest.1).step_by(PERIOD_NS as usize);
        for wake_ns in wakes {
            let late = |holes: &[LifeSpan], at_ns| {
                let hole = holes.iter().find(|hole| hole.holds(at_ns));
                hole.map_or(at_ns, |hole| hole.end_ns)
            };
            let start_ns = late(&self.away, pause_of(plan, wake_ns));
            let end_ns = late(&self.unfelt, wake_ns + PERIOD_NS);
            match self.pauses.last_mut() {
                // It slept through a period.
                Some(last) if start_ns <= last.end_ns => last.end_ns = last.end_ns.max(end_ns),
                _ if start_ns < end_ns => self.pauses.push(LifeSpan { start_ns, end_ns }),
                _ => {}
            }
        }
    }

    /// The workload's last reading of its clock at this instant, and how long it had paused.
    pub fn tally(&self, at_ns: u64) -> (u64, u64) {
        let mut holes = self.away.iter().chain(&self.pauses);
        let last_ns = holes.find(|hole| hole.holds(at_ns));
        let last_ns = last_ns.map_or(at_ns, |hole| hole.start_ns);
        let over = self.pauses.iter().filter(|pause| pause.end_ns <= last_ns);
        (
            last_ns,
            over.map(|pause| pause.end_ns - pause.start_ns).sum(),
        )
    }
}

/// When the pause is due of the period that holds this instant.
fn pause_of(plan: &RecordingPlan, at_ns: u64) -> u64 {
    let into_ns = (at_ns - plan.guest.0) % PERIOD_NS;
    at_ns - into_ns + plan.polled_ms * (PERIOD_NS / 100)
}
