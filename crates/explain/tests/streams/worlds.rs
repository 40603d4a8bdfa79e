//! Random hosts and guests like those in practice, with the truth about them. They have ticks on
//! both sides, tasks that take the CPU periodically or at random, bursts, quiet windows, work of
//! the guest's kernel, and losses in both recordings.

use super::clocks::{Dice, PairClocks};
use super::lives::{Life, LifeSpan};
use super::pairs::{RecordedPair, RecordingPlan};

use vmnoise_events::{Event, Loss, LossKind};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Work that comes periodically.
#[derive(Debug, Clone, Copy)]
pub struct PeriodicWork {
    pub period_ns: u64,
    pub phase_ns: u64,
    pub len_ns: u64,
    pub jitter_ns: u64,
}

/// Disturbances of guests by their host and by themselves.
#[derive(Debug, Clone)]
pub struct PairWorld {
    pub seed: u64,
    pub cpus: u32,
    pub vms: u32,
    /// Length of the guest's measurement.
    pub length_ns: u64,
    /// Tick of the host's kernel. Each tick causes an exit.
    pub host_tick: Option<PeriodicWork>,
    /// Tick of the guest's kernel, in a gap of its own. Half of these gaps contain an exit.
    pub guest_tick: Option<PeriodicWork>,
    /// Task of the host that takes the CPU periodically.
    pub disturber: Option<PeriodicWork>,
    /// Task of the host that takes the CPU at random: number of times per second, and longest time.
    pub random: (u64, u64),
    /// Exits at random: number per second, and longest length.
    pub exits: (u64, u64),
    /// Number of bursts of short exits per second.
    pub bursts: u64,
    /// Number of gaps per second that the guest's own work causes.
    pub own: u64,
    /// Percentage of the time in which only periodic work and bursts occur.
    pub quiet_percent: u64,
    /// Percentage of the exits, and of the gaps, that are lost.
    pub lost_percent: u64,
    pub threshold_ns: u64,
    pub bracket_ns: u64,
    /// Seed of the disturber, which is the same on all CPUs and VMs of a host.
    pub beat_seed: u64,
}

/// Hole in a workload's time: its start, its length, and the exits in it.
struct Hole {
    at_ns: u64,
    len_ns: u64,
    exits: Vec<(u64, u64)>,
    is_irregular: bool,
}

impl PairWorld {
    /// Returns a random world.
    pub fn of(seed: u64) -> PairWorld {
        let mut dice = Dice(seed);
        let work = |dice: &mut Dice, periods: &[u64], lens: (u64, u64)| PeriodicWork {
            period_ns: periods[dice.roll(0, periods.len() as u64) as usize],
            phase_ns: dice.roll(0, 10 * MS),
            len_ns: dice.roll(lens.0, lens.1),
            jitter_ns: [0, US, 20 * US, 300 * US][dice.roll(0, 4) as usize],
        };
        let ticks = [MS, 4 * MS, 10 * MS];
        let host_tick = dice
            .percent(70)
            .then(|| work(&mut dice, &ticks, (2 * US, 6 * US)));
        let guest_tick = dice
            .percent(80)
            .then(|| work(&mut dice, &ticks, (4 * US, 12 * US)));
        let load = dice.roll(0, 51);
        let turns = [4 * MS, 8 * MS, 10 * MS, 20 * MS];
        let disturber = dice.percent(50).then(|| {
            let turn = work(&mut dice, &turns, (1, 2));
            let len_ns = (turn.period_ns * load / 100).max(5 * US);
            PeriodicWork { len_ns, ..turn }
        });
        let lengths = [50 * MS, 100 * MS, 200 * MS, 500 * MS, S, 2 * S, 10 * S];
        let length_ns = lengths[[0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 6][dice.roll(0, 12) as usize]];
        let quiet = dice.percent(15);
        let mut often = |most: u64| if quiet { 0 } else { dice.roll(0, most) };
        let random_len_ns = 5 * MS;
        let random = (often(2 * load + 1), random_len_ns);
        let (exits, bursts, own) = (often(500), often(5), often(300));
        PairWorld {
            seed,
            cpus: dice.roll(1, 5) as u32,
            vms: 1,
            length_ns,
            host_tick,
            guest_tick,
            disturber,
            random,
            exits: (exits, dice.roll(3 * US, 80 * US)),
            bursts,
            own,
            quiet_percent: [0, 0, 20, 60][dice.roll(0, 4) as usize],
            lost_percent: [0, 0, 1, 3][dice.roll(0, 4) as usize],
            threshold_ns: [US, US, 5 * US][dice.roll(0, 3) as usize],
            bracket_ns: [0, 100, 2 * US][dice.roll(0, 3) as usize],
            beat_seed: seed,
        }
    }

    pub fn plan(&self) -> RecordingPlan {
        let before_ns = 100 * MS;
        RecordingPlan {
            seed: self.seed,
            clocks: PairClocks::plain(),
            apic_ids: (0..self.cpus).collect(),
            guest: (before_ns, before_ns + self.length_ns),
            host: (before_ns / 2, before_ns * 3 / 2 + self.length_ns),
            threshold_ns: self.threshold_ns,
            bracket_ns: self.bracket_ns,
            other_vms: self.vms - 1,
            ..RecordingPlan::plain()
        }
    }

    /// Returns the recordings of a guest and its host.
    pub fn record(&self) -> RecordedPair {
        let plan = self.plan();
        let each = (0..self.vms).flat_map(|vm| (0..self.cpus).map(move |cpu| (vm, cpu)));
        let lives: Vec<Life> = each.map(|(vm, cpu)| self.live(&plan, vm, cpu)).collect();
        let lost: usize = lives
            .iter()
            .take(self.cpus as usize)
            .map(|life| life.gaps_lost)
            .sum();
        let mut pair = plan.record_lives(lives);
        let reported = pair.guest.len().saturating_sub(2);
        let loss = Event::Loss(Loss {
            kind: LossKind::MailboxFull,
            count: lost as u64,
        });
        pair.guest.insert(reported, loss);
        pair
    }

    fn live(&self, plan: &RecordingPlan, vm: u32, cpu: u32) -> Life {
        let mut dice = Dice(self.seed ^ u64::from(vm * 64 + cpu + 1) << 32);
        let mut common = Dice(self.beat_seed ^ 0xbea7);
        let end_ns = plan.host.1;
        let mut holes = Vec::new();
        let quiet_ns = (end_ns / 4, end_ns / 4 + end_ns * self.quiet_percent / 100);
        let mut works =
            |work: Option<PeriodicWork>, dice: &mut Dice, hole: &dyn Fn(u64, &mut Dice) -> Hole| {
                let Some(work) = work else { return };
                let mut at_ns = work.phase_ns;
                while at_ns < end_ns {
                    let mut hole = hole(work.len_ns, dice);
                    hole.at_ns = at_ns + dice.roll(0, work.jitter_ns.min(work.period_ns / 3) + 1);
                    holes.push(hole);
                    at_ns += work.period_ns;
                }
            };
        works(self.host_tick, &mut dice, &|len_ns, dice| {
            Hole::exit(len_ns + dice.roll(0, US), dice)
        });
        works(self.guest_tick, &mut dice, &|len_ns, dice| {
            let len_ns = len_ns + dice.roll(0, 4 * US);
            let exits = if dice.percent(50) {
                vec![(US, len_ns / 3)]
            } else {
                vec![]
            };
            Hole {
                at_ns: 0,
                len_ns,
                exits,
                is_irregular: false,
            }
        });
        works(self.disturber, &mut common, &|len_ns, dice| {
            Hole::exit(len_ns + dice.roll(0, 20 * US), dice)
        });
        let mut at_random = |often: u64, hole: &mut dyn FnMut(&mut Dice) -> Hole| {
            let count = often * end_ns / S;
            for _ in 0..count {
                let at_ns = dice.roll(0, end_ns);
                if (quiet_ns.0..quiet_ns.1).contains(&at_ns) {
                    continue;
                }
                let hole = hole(&mut dice);
                holes.push(Hole {
                    at_ns,
                    is_irregular: true,
                    ..hole
                });
            }
        };
        let (random, most_ns) = self.random;
        at_random(random, &mut |dice| {
            Hole::exit(dice.roll(100 * US, most_ns), dice)
        });
        let (exits, most_ns) = self.exits;
        at_random(exits, &mut |dice| {
            let len_ns = dice.roll(US, most_ns);
            Hole::exit(len_ns, dice)
        });
        at_random(self.own, &mut |dice| Hole {
            at_ns: 0,
            len_ns: dice.roll(2 * US, 200 * US),
            exits: vec![],
            is_irregular: true,
        });
        for _ in 0..self.bursts * end_ns / S {
            let mut at_ns = dice.roll(0, end_ns);
            for nth in 0..dice.roll(10, 60) {
                let len_ns = dice.roll(2 * US, 10 * US);
                let hole = Hole::exit(len_ns, &mut dice);
                at_ns += len_ns + dice.roll(10 * US, 50 * US);
                let is_irregular = nth == 0;
                holes.push(Hole {
                    at_ns,
                    is_irregular,
                    ..hole
                });
            }
        }
        holes.sort_by_key(|hole| hole.at_ns);
        let mut life = Life::default();
        (life.vm, life.number) = (vm, cpu);
        let mut free_ns = 0;
        for hole in &holes {
            if hole.at_ns < free_ns {
                continue;
            }
            free_ns = hole.at_ns + hole.len_ns + 2 * US;
            let span = |after_ns: u64, len_ns: u64| LifeSpan {
                start_ns: hole.at_ns + after_ns,
                end_ns: hole.at_ns + after_ns + len_ns,
            };
            let mut reported = 0;
            for (after_ns, len_ns) in &hole.exits {
                let exit = span(*after_ns, *len_ns);
                match dice.percent(self.lost_percent) {
                    true => life.lost_exits.push(exit),
                    false => {
                        life.exits.push(exit);
                        reported += 1;
                    }
                }
            }
            let gap = span(0, hole.len_ns);
            if gap.start_ns < plan.guest.0 || gap.end_ns > plan.guest.1 {
                continue;
            }
            life.away.push(gap);
            if hole.len_ns < self.threshold_ns {
                continue;
            }
            if dice.percent(self.lost_percent) {
                life.gaps_lost += 1;
                continue;
            }
            life.gaps.push(gap);
            if hole.is_irregular && reported > 0 {
                let lengths = hole.exits.iter().map(|exit| exit.1);
                life.irregular.extend(lengths.max());
            }
        }
        life
    }
}

impl Hole {
    /// Returns a hole with one exit, and with the time to leave the guest and to return to it.
    fn exit(len_ns: u64, dice: &mut Dice) -> Hole {
        let (out_ns, back_ns) = (dice.roll(100, 1_500), dice.roll(100, 1_500));
        // After some exits, the guest has work of its own.
        let own_ns = if dice.percent(30) {
            dice.roll(0, 15 * US)
        } else {
            0
        };
        Hole {
            at_ns: 0,
            len_ns: out_ns + len_ns + back_ns + own_ns,
            exits: vec![(out_ns, len_ns)],
            is_irregular: false,
        }
    }
}

/// Returns the odds, in decades, that the exits without a period on one CPU could give: the largest
/// odds of any CPU. The odds follow from the true lengths of these exits and of all gaps. A burst
/// counts once, because one long gap can contain the whole burst.
pub fn could_give(pair: &RecordedPair, world: &PairWorld) -> f64 {
    let lives = pair.lives.iter().take(world.cpus as usize);
    let of_life = |life: &Life| -> f64 {
        let of_exit = |len_ns: &u64| {
            let fits = life.gaps.iter().map(|gap| gap.end_ns - gap.start_ns);
            let room_ns: u64 = fits.map(|gap_ns| gap_ns.saturating_sub(*len_ns)).sum();
            let chance = (room_ns as f64 / world.length_ns as f64).max(1e-3);
            if chance > 0.5 {
                0.0
            } else {
                (0.95 / chance).log10()
            }
        };
        let is_felt = |len_ns: &&u64| **len_ns >= world.threshold_ns + 4 * world.bracket_ns;
        life.irregular.iter().filter(is_felt).map(of_exit).sum()
    };
    lives.map(of_life).fold(0.0, f64::max)
}
