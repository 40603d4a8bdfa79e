//! Lives of the vCPUs of a pair: exits, gaps and pauses, in ideal time.

use super::clocks::Dice;
use super::pairs::RecordingPlan;

const US: u64 = 1_000;
/// Period of the workload, in ns. The workload polls for a part of each period.
pub const PERIOD_NS: u64 = 100_000_000;

/// Span of ideal time.
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

/// Time for which a vCPU of the guest is on the recording host, in ideal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VcpuStay {
    /// The whole time.
    Always,
    /// Until this time. The VM then moves to another host, which is not recorded.
    Until(u64),
    /// From this time on. The VM moves to this host then.
    From(u64),
    /// The whole time, but from this time on the host reports the vCPU under another id.
    OtherIdFrom(u64),
    /// The whole time, but from this time on the vCPU has another thread, and therefore another id.
    OtherThreadFrom(u64),
}

impl VcpuStay {
    /// Returns whether the host reports this exit under the other id; `None` if it does not report
    /// the exit. An exit that is in progress at the change is never reported, because its start or
    /// its end is not seen.
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

/// Life of one vCPU.
#[derive(Debug, Clone, Default)]
pub struct Life {
    /// Number of the VM.
    pub vm: u32,
    /// Number of the vCPU in the VM.
    pub number: u32,
    /// Exits that were reported.
    pub exits: Vec<LifeSpan>,
    /// Exits whose records were lost.
    pub lost_exits: Vec<LifeSpan>,
    /// Gaps that the guest recorded.
    pub gaps: Vec<LifeSpan>,
    /// All holes in the workload's time, including holes that were lost or too short to be
    /// recorded.
    pub away: Vec<LifeSpan>,
    /// Pauses of the workload.
    pub pauses: Vec<LifeSpan>,
    /// Holes that began while the workload paused.
    unfelt: Vec<LifeSpan>,
    /// Length of the longest exit in each gap that is not periodic.
    pub irregular: Vec<u64>,
    /// Number of gaps that were lost.
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
                    // The guest's own work contains two exits here.
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

    /// Adds these exits, and the hole around them. Each exit has its delay after `at_ns`, and its
    /// length.
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
        // The time to leave the guest and to return to it belongs to no exit. After some exits, the
        // guest has work of its own.
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

    /// Finds the pauses of the workload, after all holes are known. A hole that the workload
    /// observed delays the start of a pause. A hole that it did not observe delays the end of a
    /// pause.
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
                // The workload slept through a whole period.
                Some(last) if start_ns <= last.end_ns => last.end_ns = last.end_ns.max(end_ns),
                _ if start_ns < end_ns => self.pauses.push(LifeSpan { start_ns, end_ns }),
                _ => {}
            }
        }
    }

    /// Returns the time of the workload's last clock reading at this instant, and the total length
    /// of the pauses before this reading.
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

/// Returns the planned start of the pause in the period that contains this instant.
fn pause_of(plan: &RecordingPlan, at_ns: u64) -> u64 {
    let into_ns = (at_ns - plan.guest.0) % PERIOD_NS;
    at_ns - into_ns + plan.polled_ms * (PERIOD_NS / 100)
}
