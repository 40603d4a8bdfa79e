//! Clocks of a host and one of its guests, with the truth about them. All clocks follow from an
//! ideal time in nanoseconds, which no recording contains.

use vmnoise_events::{Anchor, ClockFacts, ClockSource, Event, VcpuClock, VcpuId};

const NS_PER_S: i128 = 1_000_000_000;
const PPB: i128 = 1_000_000_000;

/// Deterministic random numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number that is at least `low` and less than `high`.
    pub fn roll(&mut self, low: u64, high: u64) -> u64 {
        low + self.any() % (high - low)
    }

    /// Returns true in `of_100` of a hundred cases.
    pub fn percent(&mut self, of_100: u64) -> bool {
        self.roll(0, 100) < of_100
    }
}

/// A CLOCK_MONOTONIC that drifts: its rate changes at some instants.
#[derive(Debug, Clone)]
pub struct Monotonic {
    /// Value of the clock at time 0.
    pub base_ns: u64,
    /// Rate errors in parts per 10^9, positive if the clock is too fast, each with the time from
    /// which it applies; in time order.
    pub ppb: Vec<(u64, i64)>,
}

impl Monotonic {
    /// Returns the value of the clock after it has run for this time.
    pub fn at(&self, elapsed_ns: u64) -> u64 {
        let ends = self.ppb.iter().skip(1).map(|(from, _)| *from);
        let pieces = self.ppb.iter().zip(ends.chain([u64::MAX]));
        let drift: i128 = pieces
            .map(|((from, ppb), to)| {
                i128::from(elapsed_ns.min(to).saturating_sub(*from)) * i128::from(*ppb)
            })
            .sum();
        let shown = i128::from(self.base_ns) + i128::from(elapsed_ns) + drift.div_euclid(PPB);
        u64::try_from(shown).expect("a clock that starts late enough")
    }
}

/// Reason why the guest's vCPUs did not run. The reason decides which clocks stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// The VM was paused and resumed. KVM got another offset, so the guest's counter and its
    /// CLOCK_MONOTONIC stood still.
    Paused,
    /// The guest was suspended. Its CLOCK_MONOTONIC stood still, and its counter went on.
    Suspended,
    /// The VM was loaded from a snapshot. The guest's CLOCK_MONOTONIC stood still, and its counter
    /// went back.
    Restored { back_ns: u64 },
    /// The host was suspended to RAM. The host's CLOCK_MONOTONIC stood still, and all other clocks
    /// went on.
    HostSuspended,
}

/// A period in which the VM did not run.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    pub from_ns: u64,
    pub to_ns: u64,
    pub kind: StopKind,
}

impl Stop {
    fn dur_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        from_ns < self.to_ns && self.from_ns < to_ns
    }

    /// Returns the time that the guest's counter lacks after the stop.
    fn lost_ns(&self) -> u64 {
        match self.kind {
            StopKind::Paused => self.dur_ns(),
            StopKind::Restored { back_ns } => self.dur_ns() + back_ns,
            StopKind::Suspended | StopKind::HostSuspended => 0,
        }
    }
}

/// The truth about the clocks of a host and a guest.
#[derive(Debug, Clone)]
pub struct PairClocks {
    pub host_hz: u64,
    /// Value of the host's counter at time 0.
    pub host_base_tsc: u64,
    pub host_mono: Monotonic,
    /// Value of the guest's counter at time 0. The TSC offset follows from it.
    pub guest_base_tsc: u64,
    pub ratio: u64,
    pub ratio_frac_bits: u8,
    pub guest_mono: Monotonic,
    /// Stops in time order, which do not overlap.
    pub stops: Vec<Stop>,
}

impl PairClocks {
    /// Returns clocks that show ideal time, so that times are easy to read.
    pub fn plain() -> PairClocks {
        let shows_it = Monotonic {
            base_ns: 0,
            ppb: vec![],
        };
        PairClocks {
            host_hz: 1_000_000_000,
            host_base_tsc: 0,
            host_mono: shows_it.clone(),
            guest_base_tsc: 0,
            ratio: 1,
            ratio_frac_bits: 0,
            guest_mono: shows_it,
            stops: vec![],
        }
    }

    pub fn host_tsc(&self, at_ns: u64) -> u64 {
        let cycles = i128::from(at_ns) * i128::from(self.host_hz) / NS_PER_S;
        self.host_base_tsc + u64::try_from(cycles).expect("a run of less than centuries")
    }

    pub fn host_mono_ns(&self, at_ns: u64) -> u64 {
        self.host_mono.at(at_ns - self.stopped_ns(at_ns, true))
    }

    /// Returns the value of the guest's counter. The VM must not be stopped at this time.
    pub fn guest_tsc(&self, at_ns: u64) -> u64 {
        let now = self.vcpu_clocks(0).into_iter().zip(self.starts());
        let (clock, _) = now
            .take_while(|(_, from_ns)| *from_ns <= at_ns)
            .last()
            .expect("the first starts at 0");
        clock
            .guest_tsc(self.host_tsc(at_ns))
            .expect("a counter that a guest can read")
    }

    pub fn guest_mono_ns(&self, at_ns: u64) -> u64 {
        self.guest_mono.at(at_ns - self.stopped_ns(at_ns, false))
    }

    /// Returns for how long a CLOCK_MONOTONIC had stood still by `at_ns`: the host's if `of_host`,
    /// otherwise the guest's.
    fn stopped_ns(&self, at_ns: u64, of_host: bool) -> u64 {
        let stands = |stop: &&Stop| (stop.kind == StopKind::HostSuspended) == of_host;
        let stops = self.stops.iter().filter(stands);
        let until = stops.map(|stop| at_ns.clamp(stop.from_ns, stop.to_ns) - stop.from_ns);
        until.sum()
    }

    /// Returns whether the guest's counter goes back in one of the stops.
    pub fn goes_back(&self) -> bool {
        let mut stops = self.stops.iter();
        stops.any(|stop| matches!(stop.kind, StopKind::Restored { .. }))
    }

    pub fn guest_hz(&self) -> u64 {
        ((u128::from(self.host_hz) * u128::from(self.ratio)) >> self.ratio_frac_bits) as u64
    }

    /// Returns the stops after which KVM has another offset.
    fn new_offsets(&self) -> impl Iterator<Item = &Stop> {
        self.stops.iter().filter(|stop| stop.lost_ns() > 0)
    }

    /// Returns the time from which each of the guest's clocks is valid.
    fn starts(&self) -> impl Iterator<Item = u64> {
        [0].into_iter()
            .chain(self.new_offsets().map(|stop| stop.to_ns))
    }

    /// Removes the changes of the rate of each CLOCK_MONOTONIC that are at most `within_ns` away
    /// from one of these times.
    pub fn keep_rates_around(&mut self, times_ns: &[u64], within_ns: u64) {
        let PairClocks {
            host_mono,
            guest_mono,
            stops,
            ..
        } = self;
        for (mono, is_host) in [(host_mono, true), (guest_mono, false)] {
            let stands = |stop: &&Stop| (stop.kind == StopKind::HostSuspended) == is_host;
            let ideal_ns = |elapsed_ns: u64| {
                let stood = stops.iter().filter(stands);
                stood.fold(elapsed_ns, |at_ns, stop| match stop.from_ns <= at_ns {
                    true => at_ns + stop.dur_ns(),
                    false => at_ns,
                })
            };
            mono.ppb.retain(|(from_ns, _)| {
                let at_ns = ideal_ns(*from_ns);
                let mut away = times_ns.iter().map(|time_ns| time_ns.abs_diff(at_ns));
                *from_ns == 0 || away.all(|away_ns| away_ns > within_ns)
            });
        }
    }

    /// Returns the host's records of the clocks of this vCPU.
    pub fn vcpu_clocks(&self, vcpu: u32) -> Vec<VcpuClock> {
        let scaled =
            (i128::from(self.host_base_tsc) * i128::from(self.ratio)) >> self.ratio_frac_bits;
        let mut offset = i128::from(self.guest_base_tsc) - scaled;
        let first_ns = self.host_mono_ns(0);
        let clock = |offset: i128, before_until_mono_ns, from_mono_ns| VcpuClock {
            vcpu: VcpuId(vcpu),
            before_until_mono_ns,
            from_mono_ns,
            offset_tsc: i64::try_from(offset).expect("an offset that KVM can hold"),
            ratio: self.ratio,
            ratio_frac_bits: self.ratio_frac_bits,
        };
        let mut clocks = vec![clock(offset, first_ns, first_ns)];
        for stop in self.new_offsets() {
            offset -= i128::from(stop.lost_ns()) * i128::from(self.guest_hz()) / NS_PER_S;
            let (until_ns, from_ns) = (stop.from_ns, stop.to_ns);
            clocks.push(clock(
                offset,
                self.host_mono_ns(until_ns),
                self.host_mono_ns(from_ns),
            ));
        }
        clocks
    }

    /// Returns a reading of the host's clocks that takes `width_ns`. CLOCK_MONOTONIC is read at a
    /// random time in it.
    pub fn host_anchor(&self, at_ns: u64, width_ns: u64, dice: &mut Dice) -> Anchor {
        let read_ns = at_ns + dice.roll(0, width_ns + 1);
        Anchor {
            before_tsc: self.host_tsc(at_ns),
            mono_ns: self.host_mono_ns(read_ns),
            after_tsc: self.host_tsc(at_ns + width_ns),
        }
    }

    /// Returns a reading of the guest's clocks that takes `width_ns`. The VM must not be stopped
    /// during it.
    pub fn guest_anchor(&self, at_ns: u64, width_ns: u64, dice: &mut Dice) -> Anchor {
        let read_ns = at_ns + dice.roll(0, width_ns + 1);
        Anchor {
            before_tsc: self.guest_tsc(at_ns),
            mono_ns: self.guest_mono_ns(read_ns),
            after_tsc: self.guest_tsc(at_ns + width_ns),
        }
    }

    /// Returns whether the host is suspended at any time in `from_ns..to_ns`.
    pub fn host_is_suspended(&self, from_ns: u64, to_ns: u64) -> bool {
        let mut stops = self.stops.iter();
        stops.any(|stop| stop.kind == StopKind::HostSuspended && stop.overlaps(from_ns, to_ns))
    }

    /// Returns whether the VM is stopped at any time in `from_ns..to_ns`.
    pub fn is_stopped(&self, from_ns: u64, to_ns: u64) -> bool {
        let mut stops = self.stops.iter();
        stops.any(|stop| stop.overlaps(from_ns, to_ns))
    }
}

/// Clocks of one kernel, described by their values at ideal time 0. The counter makes a whole
/// number of cycles per nanosecond.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    pub cycles_per_ns: u64,
    pub first_tsc: u64,
    pub first_mono_ns: u64,
}

impl Shown {
    /// Clocks that show ideal time.
    pub const PLAIN: Shown = Shown {
        cycles_per_ns: 1,
        first_tsc: 0,
        first_mono_ns: 0,
    };

    pub fn tsc(&self, at_ns: u64) -> u64 {
        self.first_tsc + self.cycles_per_ns * at_ns
    }

    pub fn mono_ns(&self, at_ns: u64) -> u64 {
        self.first_mono_ns + at_ns
    }

    /// Returns the facts about this kernel's clocks.
    pub fn facts(&self) -> ClockFacts {
        clock_facts(self.cycles_per_ns * 1_000_000_000)
    }

    /// Converts the times of a stream from ideal time to the times that this kernel's clocks show.
    pub fn stream(&self, mut events: Vec<Event>) -> Vec<Event> {
        events.iter_mut().for_each(|event| self.date(event));
        events
    }

    fn date(&self, event: &mut Event) {
        let tsc = |at: &mut u64| *at = self.tsc(*at);
        let mono_ns = |at: &mut u64| *at = self.mono_ns(*at);
        match event {
            Event::Gap(gap) => {
                tsc(&mut gap.start_tsc);
                tsc(&mut gap.end_tsc);
            }
            Event::Tally(tally) => {
                tsc(&mut tally.first_tsc);
                tsc(&mut tally.last_tsc);
            }
            Event::Anchor(anchor) => {
                tsc(&mut anchor.before_tsc);
                mono_ns(&mut anchor.mono_ns);
                tsc(&mut anchor.after_tsc);
            }
            Event::Activity(it) => {
                mono_ns(&mut it.start_mono_ns);
                mono_ns(&mut it.end_mono_ns);
            }
            Event::Activation(it) => {
                mono_ns(&mut it.expiry_mono_ns);
                mono_ns(&mut it.woke_mono_ns);
                let steps = [
                    &mut it.armed_mono_ns,
                    &mut it.irq_mono_ns,
                    &mut it.waking_mono_ns,
                    &mut it.switch_mono_ns,
                ];
                steps.into_iter().flatten().for_each(mono_ns);
            }
            Event::Watermark(at) => mono_ns(at),
            _ => {}
        }
    }
}

/// Returns the facts of a counter of this frequency that the kernel trusts.
pub fn clock_facts(tsc_hz: u64) -> ClockFacts {
    ClockFacts {
        source: ClockSource::Tsc,
        tsc_hz,
        offset_proof: None,
        offset_tsc: 0,
        offset_bound_tsc: 0,
        bracket_tsc: 0,
    }
}
