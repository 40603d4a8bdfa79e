//! Computes HW_NOISE of a guest whose host reports its number of exits. Each exit causes at most
//! one gap. Therefore the host may have caused at most as many gaps as there were exits. In the
//! worst case, these are the longest gaps without an activity of the guest's kernel. The hardware
//! caused the rest.

use std::collections::VecDeque;
use std::ops::AddAssign;

use vmnoise_events::HostFrame;

use crate::interval::GapDetail;
use crate::visibility::Visibility;

/// Maximum number of gaps kept between two frames.
const KEPT_GAPS: usize = 65_536;
/// Maximum number of gaps kept before the first frame.
const KEPT_UNFED: usize = 4_096;
/// Maximum number of spans that wait for their gaps. If there are more, the last two spans are
/// merged.
const KEPT_SPANS: usize = 256;

/// A gap of which no part is explained.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BareGap {
    pub(crate) start_tsc: u64,
    pub(crate) end_tsc: u64,
    pub(crate) ns: u64,
    /// Whether the guest's own kernel certainly did nothing in the gap.
    pub(crate) certain: bool,
}

impl BareGap {
    pub(crate) fn of(gap: &GapDetail, dur_ns: u64, visibility: &Visibility) -> BareGap {
        BareGap {
            start_tsc: gap.start_tsc,
            end_tsc: gap.end_tsc,
            ns: dur_ns,
            certain: gap.lost_activities == Some(0) && !visibility.is_blind_itself(false),
        }
    }
}

/// Time of the hardware, as a lower and an upper bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HardwareBound {
    pub(crate) at_least_ns: u64,
    most_ns: u64,
    /// Number of judged spans.
    judged: u64,
    /// Whether gaps were dropped. There is then no upper bound.
    unbounded: bool,
}

impl HardwareBound {
    pub(crate) fn at_most_ns(self) -> Option<u64> {
        (self.judged > 0 && !self.unbounded).then_some(self.most_ns)
    }
}

impl AddAssign for HardwareBound {
    fn add_assign(&mut self, more: HardwareBound) {
        self.at_least_ns = self.at_least_ns.saturating_add(more.at_least_ns);
        self.most_ns = self.most_ns.saturating_add(more.most_ns);
        self.judged = self.judged.saturating_add(more.judged);
        self.unbounded = self.unbounded || more.unbounded;
    }
}

/// Time between two frames.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_tsc: u64,
    until_tsc: u64,
    exits: u64,
    /// Whether the host sees every exit and runs on bare metal.
    sees_all: bool,
}

/// Gaps, and spans between frames, until both are final.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    gaps: Vec<BareGap>,
    spans: VecDeque<Span>,
    /// TSC reading up to which gaps may have been dropped.
    forgotten_tsc: u64,
}

impl Hardware {
    /// Adds the span between two frames.
    pub(crate) fn watch(&mut self, from_tsc: u64, frame: &HostFrame, exits: u64) {
        let span = Span {
            from_tsc,
            until_tsc: frame.until_tsc,
            exits,
            sees_all: frame.sees_kvm && frame.is_last,
        };
        let is_full = self.spans.len() >= KEPT_SPANS;
        match self.spans.back_mut() {
            Some(last) if is_full => {
                last.sees_all &= span.sees_all && last.until_tsc == span.from_tsc;
                last.until_tsc = last.until_tsc.max(span.until_tsc);
                last.exits = last.exits.saturating_add(span.exits);
            }
            _ => self.spans.push_back(span),
        }
    }

    /// Keeps a gap. Gaps before the first frame are kept too, because a frame arrives after the
    /// time that it reports.
    pub(crate) fn note(&mut self, gap: BareGap, has_feed: bool) {
        let most = if has_feed { KEPT_GAPS } else { KEPT_UNFED };
        if self.gaps.len() >= most {
            for gap in self.gaps.drain(..most / 2) {
                self.forgotten_tsc = self.forgotten_tsc.max(gap.end_tsc);
            }
        }
        self.gaps.push(gap);
    }

    /// Returns the bounds over all spans in which no later gap can start.
    pub(crate) fn settle(&mut self, settled_tsc: u64) -> HardwareBound {
        let mut bound = HardwareBound::default();
        while let Some(span) = self.spans.front().copied()
            && span.until_tsc <= settled_tsc
        {
            self.spans.pop_front();
            bound += self.judge(span);
        }
        bound
    }

    fn judge(&mut self, span: Span) -> HardwareBound {
        let begun = |gap: &mut BareGap| gap.start_tsc < span.until_tsc;
        let mut inside: Vec<u64> = Vec::new();
        let mut bound = HardwareBound {
            judged: 1,
            unbounded: span.from_tsc < self.forgotten_tsc,
            ..HardwareBound::default()
        };
        for gap in self.gaps.extract_if(.., begun) {
            if gap.end_tsc <= span.from_tsc {
                continue;
            }
            bound.most_ns = bound.most_ns.saturating_add(gap.ns);
            // A gap that extends beyond the span may hold an exit that another span counts.
            let is_inside = gap.start_tsc >= span.from_tsc && gap.end_tsc <= span.until_tsc;
            if span.sees_all && is_inside && gap.certain {
                inside.push(gap.ns);
            }
        }
        inside.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
        let exits = usize::try_from(span.exits).unwrap_or(usize::MAX);
        let rest = inside.iter().skip(exits);
        bound.at_least_ns = rest.fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        bound
    }
}
