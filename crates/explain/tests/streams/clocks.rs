//! The clocks of a host and one of its guests, with the truth about them. All follow from an
//! ideal time in nanoseconds, which no recording knows.

use vmnoise_events::{Anchor, ClockFacts, ClockSource, VcpuClock, VcpuId};

const NS_PER_S: i128 = 1_000_000_000;
const PPB: i128 = 1_000_000_000;

/// Deterministic random numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` on, below `high`.
    pub fn roll(&mut self, low: u64, high: u64) -> u64 {
        low + self.any() % (high - low)
    }

    /// True in this many of a hundred.
    pub fn percent(&mut self, of_100: u64) -> bool {
        self.roll(0, 100) < of_100
    }
}

/// A CLOCK_MONOTONIC that drifts: its rate changes at some instants.
#[derive(Debug, Clone)]
pub struct Monotonic {
    /// What it shows at 0.
    pub base_ns: u64,
    /// From when on it is how many parts in 10^9 too fast; ascending.
    pub ppb: Vec<(u64, i64)>,
}

impl Monotonic {
    /// What it shows when it has run for this long.
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

/// The VM was stopped, and went on with its counter where it had been: KVM was told another
/// offset meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    pub from_ns: u64,
    pub to_ns: u64,
}

/// The truth about the clocks of a host and a guest. The guest's CLOCK_MONOTONIC is a
/// function of its counter: both stand still while the VM is stopped.
#[derive(Debug, Clone)]
pub struct PairClocks {
    pub host_hz: u64,
    /// The host's counter at 0.
    pub host_base_tsc: u64,
    pub host_mono: Monotonic,
    /// The guest's counter at 0; the offset follows.
    pub guest_base_tsc: u64,
    pub ratio: u64,
    pub ratio_frac_bits: u8,
    pub guest_mono: Monotonic,
    /// Ascending, apart.
    pub stops: Vec<Stop>,
}

impl PairClocks {
    /// Every clock shows the ideal time: times can be read off.
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
        self.host_mono.at(at_ns)
    }

    /// Not while it is stopped.
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
        let over = self.stops.iter().filter(|stop| stop.to_ns <= at_ns);
        let stopped_ns: u64 = over.map(|stop| stop.to_ns - stop.from_ns).sum();
        self.guest_mono.at(at_ns - stopped_ns)
    }

    pub fn guest_hz(&self) -> u64 {
        ((u128::from(self.host_hz) * u128::from(self.ratio)) >> self.ratio_frac_bits) as u64
    }

    /// From when on each clock of the guest holds.
    fn starts(&self) -> impl Iterator<Item = u64> {
        [0].into_iter()
            .chain(self.stops.iter().map(|stop| stop.to_ns))
    }

    /// What the host records of them for this vCPU.
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
        for stop in &self.stops {
            let stopped_ns = i128::from(stop.to_ns - stop.from_ns);
            offset -= stopped_ns * i128::from(self.guest_hz()) / NS_PER_S;
            let (until_ns, from_ns) = (stop.from_ns, stop.to_ns);
            clocks.push(clock(
                offset,
                self.host_mono_ns(until_ns),
                self.host_mono_ns(from_ns),
            ));
        }
        clocks
    }

    /// The host reads its clocks: somewhere within `width_ns`, CLOCK_MONOTONIC.
    pub fn host_anchor(&self, at_ns: u64, width_ns: u64, dice: &mut Dice) -> Anchor {
        let read_ns = at_ns + dice.roll(0, width_ns + 1);
        Anchor {
            before_tsc: self.host_tsc(at_ns),
            mono_ns: self.host_mono_ns(read_ns),
            after_tsc: self.host_tsc(at_ns + width_ns),
        }
    }

    /// The guest reads its clocks. It must not be stopped meanwhile.
    pub fn guest_anchor(&self, at_ns: u64, width_ns: u64, dice: &mut Dice) -> Anchor {
        let read_ns = at_ns + dice.roll(0, width_ns + 1);
        Anchor {
            before_tsc: self.guest_tsc(at_ns),
            mono_ns: self.guest_mono_ns(read_ns),
            after_tsc: self.guest_tsc(at_ns + width_ns),
        }
    }

    /// Whether the VM is stopped at any time of that.
    pub fn is_stopped(&self, from_ns: u64, to_ns: u64) -> bool {
        let mut stops = self.stops.iter();
        stops.any(|stop| from_ns < stop.to_ns && stop.from_ns < to_ns)
    }
}

/// A counter of this frequency, which the kernel trusts.
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
