//! HW_NOISE of a guest whose host says how often the vCPU left it: an exit makes one gap at
//! most, so of the gaps in which the guest's kernel saw nobody, as many as there were exits
//! may be the host's, the longest if need be, and the rest is the hardware's.

use std::collections::VecDeque;
use std::ops::AddAssign;

use vmnoise_events::HostFrame;

use crate::interval::GapDetail;
use crate::visibility::Visibility;

/// Gaps kept between two frames.
const KEPT_GAPS: usize = 65_536;
/// Gaps kept while no host has told anything.
const KEPT_UNFED: usize = 4_096;
/// Spans whose gaps are not all certain yet; beyond, two become one.
const KEPT_SPANS: usize = 256;

/// A gap that is all residual.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BareGap {
    pub(crate) start_tsc: u64,
    pub(crate) end_tsc: u64,
    pub(crate) ns: u64,
    /// Whether it is certain that nobody of the guest's own kernel was there.
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

/// What the hardware had, between two bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HardwareBound {
    pub(crate) at_least_ns: u64,
    most_ns: u64,
    /// How many spans were judged.
    judged: u64,
    /// Gaps were thrown away.
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

/// What lies between two frames.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_tsc: u64,
    until_tsc: u64,
    exits: u64,
    /// The host sees every exit, and nothing is below it.
    sees_all: bool,
}

/// Gaps and spans until both are certain.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    gaps: Vec<BareGap>,
    spans: VecDeque<Span>,
    /// Gaps that ended by then may have been thrown away.
    forgotten_tsc: u64,
}

impl Hardware {
    /// Two frames enclose a span.
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

    /// Gaps are kept before the first frame as well: it comes when what it reports is over.
    pub(crate) fn note(&mut self, gap: BareGap, has_feed: bool) {
        let most = if has_feed { KEPT_GAPS } else { KEPT_UNFED };
        if self.gaps.len() >= most {
            for gap in self.gaps.drain(..most / 2) {
                self.forgotten_tsc = self.forgotten_tsc.max(gap.end_tsc);
            }
        }
        self.gaps.push(gap);
    }

    /// Judges every span that no gap still to come begins in.
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
            // A gap that sticks out may hold an exit that is counted elsewhere.
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
