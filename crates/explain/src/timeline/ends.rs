//! Index of activities by their ends. The index finds the activities that run at an instant,
//! without a visit to each earlier activity.

use vmnoise_events::Activity;

/// Number of activities per block. Each block of the next level has as many blocks.
const WIDTH: usize = 16;

/// Latest end of the activities in each block, by level.
#[derive(Debug, Default)]
pub(super) struct Ends(Vec<Vec<u64>>);

impl Ends {
    /// Updates the index for the activities from index `from` on.
    pub(super) fn renew(&mut self, activities: &[Activity], from: usize) {
        let ends = |activity: &Activity| activity.end_mono_ns;
        let mut from = from / WIDTH;
        let mut blocks: Vec<u64> = (activities[from * WIDTH..].chunks(WIDTH))
            .map(|block| block.iter().map(ends).max().unwrap_or(0))
            .collect();
        for level in 0.. {
            if self.0.len() == level {
                self.0.push(Vec::new());
            }
            let own = &mut self.0[level];
            own.truncate(from);
            own.append(&mut blocks);
            if own.len() <= WIDTH {
                self.0.truncate(level + 1);
                return;
            }
            // A new level is built from all blocks below.
            let above = self.0.get(level + 1).map_or(0, Vec::len);
            from = above.min(from / WIDTH);
            let own = &self.0[level];
            blocks.extend((own[from * WIDTH..].chunks(WIDTH)).filter_map(|of| of.iter().max()));
        }
    }

    /// Updates the index after the end of the activity at index `place` became `end_ns`.
    pub(super) fn raise(&mut self, place: usize, end_ns: u64) {
        let mut block = place;
        for level in &mut self.0 {
            block /= WIDTH;
            level[block] = level[block].max(end_ns);
        }
    }

    /// Returns the index of the first activity in `from..until` that ends after `at_ns`.
    pub(super) fn next_after(
        &self,
        at_ns: u64,
        activities: &[Activity],
        from: usize,
        until: usize,
    ) -> Option<usize> {
        let mut place = from;
        while place < until {
            match self.over(place, at_ns) {
                Some(next) => place = next,
                None if activities[place].end_mono_ns > at_ns => return Some(place),
                None => place += 1,
            }
        }
        None
    }

    /// Returns the index behind the largest block that starts at `place` and in which every
    /// activity ended by `at_ns`. Returns `None` if no such block starts there.
    fn over(&self, place: usize, at_ns: u64) -> Option<usize> {
        let (mut size, mut behind) = (1, None);
        for level in &self.0 {
            size *= WIDTH;
            if !place.is_multiple_of(size) || level[place / size] > at_ns {
                break;
            }
            behind = Some(place + size);
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::{ActivityKind, SourceId};

    fn ending(end_mono_ns: u64) -> Activity {
        Activity {
            cpu: 0,
            kind: ActivityKind::Irq,
            start_mono_ns: 0,
            end_mono_ns,
            source: SourceId(0),
            steal_ns: 0,
        }
    }

    #[test]
    fn finds_what_a_look_at_each_would_find() {
        let (mut ends, mut activities) = (Ends::default(), Vec::new());
        let mut numbers = fastrand(7);
        for round in 0..60 {
            // Some activities are new, and some earlier ones are replaced.
            let from = activities.len() - activities.len().min(numbers(40));
            activities.truncate(from);
            let long = numbers(100) == 0;
            let more = numbers(if long { 6_000 } else { 300 });
            activities.extend((0..more).map(|_| ending((numbers(1_000) * numbers(1_000)) as u64)));
            ends.renew(&activities, from);
            if let Some(place) = activities.len().checked_sub(5) {
                activities[place] = ending(2_000_000 + round);
                ends.raise(place, 2_000_000 + round);
            }
            for _ in 0..50 {
                let from = numbers(activities.len() + 1);
                let until = from + numbers(activities.len() + 1 - from);
                let at_ns = (numbers(1_100) * numbers(1_100)) as u64;
                let each = (from..until).find(|place| activities[*place].end_mono_ns > at_ns);
                assert_eq!(ends.next_after(at_ns, &activities, from, until), each);
            }
        }
        assert!(ends.0.len() > 2, "{} activities", activities.len());
        activities.truncate(3);
        ends.renew(&activities, 0);
        assert_eq!((ends.0.len(), ends.0[0].len()), (1, 1));
    }

    /// Returns pseudo-random numbers below a bound.
    fn fastrand(mut state: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below.max(1)
        }
    }
}
