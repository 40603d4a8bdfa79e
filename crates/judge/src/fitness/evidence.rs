//! What is known of a run, as bounds: a figure is at least so much, and at most so much where anybody knows.

use vmnoise_events::coverage::{CommandCoverage, Coverage, Hides, Question};
use vmnoise_events::{FamilyLongest, FamilyLook, FamilyTaken, Share};

/// Bounds of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// It is no less.
    pub least: u64,
    /// It is no more; `None` where what is not seen may be anything.
    pub most: Option<u64>,
}

/// What a verdict rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// What was taken of the threads of the command, in ns over all of them.
    pub taken_ns: Range,
    /// The longest at one go, in ns.
    pub longest_ns: Range,
    /// Of how much: the run's length, or how long its threads could run but for one another, all together, where that is
    /// more, in ns.
    pub of_ns: u64,
    /// What of the threads could be seen.
    pub coverage: Coverage,
}

impl Evidence {
    /// From what was traced of a run of this length.
    pub fn traced(look: &FamilyLook, wall_ns: u64, sees_steal: bool, sees_nmi: bool) -> Evidence {
        let books = look.books();
        let waits = look.waits;
        let missed = look.unpaired + look.missed;
        // Whom the kernel's own counts have wait longer than events show may have waited for others.
        let unshown_ns = match missed {
            0 => 0,
            _ => books.unshown_ns,
        };
        let doubt_ns = books.unseen_ns + waits.doubtful_ns + unshown_ns;
        let mut coverage = Coverage::of_command(CommandCoverage {
            untraced: None,
            threads: books.threads,
            unfollowed: look.unfollowed,
            missed,
            unbounded: look.unbounded,
            kernel_counts_waits: unshown_ns > 0 || books.kernel_waited_ns > 0,
            doubt_ns,
        });
        coverage.watched.known[Share::Steal] = sees_steal;
        coverage.watched.known[Share::Nmi] = sees_nmi;
        let spots = coverage.blind_spots(Question::Taken);
        let is_bounded = spots.iter().all(|it| it.hides() == Hides::StatedTime);
        let taken_ns = books.taken_ns();
        // What the steal clock is ahead of its last reading may have been taken piece by piece.
        let is_at_one_go = |it: &&FamilyLongest| it.taken != FamilyTaken::Steal;
        let longest =
            |all: &mut dyn Iterator<Item = &FamilyLongest>| all.map(|it| it.ns).max().unwrap_or(0);
        let sure_ns = longest(&mut look.longest.iter().filter(is_at_one_go));
        let longest_ns = longest(&mut look.longest.iter());
        let most = |ns: u64| is_bounded.then_some(ns.saturating_add(doubt_ns));
        Evidence {
            // Whose turn was not seen whole may have been one of its own.
            taken_ns: Range {
                least: taken_ns - waits.unnamed_ns.min(books.waited_ns),
                most: most(taken_ns),
            },
            longest_ns: Range {
                least: match waits.unnamed_ns {
                    0 => sure_ns,
                    unnamed_ns => sure_ns.saturating_sub(unnamed_ns),
                },
                most: most(longest_ns),
            },
            of_ns: wall_ns.max(books.runnable_ns()),
            coverage,
        }
    }

    /// All that was taken, in millionths of the run: rounded down, and up.
    pub fn noise_ppm(&self) -> Range {
        let of_ns = u128::from(self.of_ns.max(1));
        let ppm = |ns: u64| u128::from(ns) * 1_000_000;
        let clamp = |it: u128| u64::try_from(it).unwrap_or(u64::MAX);
        Range {
            least: clamp(ppm(self.taken_ns.least) / of_ns),
            most: self.taken_ns.most.map(|ns| clamp(ppm(ns).div_ceil(of_ns))),
        }
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{FamilyBooks, FamilyWaits};

    use super::*;

    fn look() -> FamilyLook {
        FamilyLook {
            ended: FamilyBooks {
                wall_ns: 10_000,
                ran_ns: 4_000,
                irq_ns: 100,
                waited_ns: 400,
                waited_own_ns: 500,
                asleep_ns: 5_000,
                threads: 1,
                ..FamilyBooks::default()
            },
            ..FamilyLook::default()
        }
    }

    fn hidden(evidence: &Evidence) -> usize {
        evidence.coverage.blind_spots(Question::Taken).len()
    }

    #[test]
    fn what_a_command_waits_for_itself_is_not_taken() {
        let evidence = Evidence::traced(&look(), 10_000, true, true);
        let known = Range {
            least: 500,
            most: Some(500),
        };
        assert_eq!(evidence.taken_ns, known);
        assert_eq!(evidence.of_ns, 10_000);
        assert_eq!(evidence.noise_ppm().least, 50_000);
        assert_eq!(hidden(&evidence), 0);
    }

    #[test]
    fn what_is_not_known_is_between_bounds() {
        let mut look = look();
        look.ended.unseen_ns = 200;
        look.waits = FamilyWaits {
            unnamed_ns: 150,
            doubtful_ns: 50,
            ..FamilyWaits::default()
        };
        look.unpaired = 3;
        look.ended.kernel_waited_ns = 1_000;
        look.ended.unshown_ns = 100;
        let evidence = Evidence::traced(&look, 10_000, true, true);
        let bounds = Range {
            least: 350,
            most: Some(500 + 200 + 50 + 100),
        };
        assert_eq!(evidence.taken_ns, bounds);
        assert_eq!(hidden(&evidence), 1);
    }

    #[test]
    fn without_a_steal_clock_nobody_knows_how_much_it_was() {
        let evidence = Evidence::traced(&look(), 10_000, false, true);
        assert_eq!(
            (evidence.taken_ns.most, evidence.longest_ns.most),
            (None, None)
        );
    }

    #[test]
    fn several_threads_are_held_against_the_time_of_all() {
        let evidence = Evidence::traced(&look(), 2_000, true, true);
        assert_eq!(evidence.of_ns, 4_500);
    }

    /// More threads than CPUs wait for one another, and what is taken is no smaller part by that.
    #[test]
    fn a_longer_queue_of_its_own_makes_no_run_fitter() {
        let mut longer = look();
        longer.ended.waited_own_ns += 1_000_000;
        longer.ended.wall_ns += 1_000_000;
        let noise = |look| Evidence::traced(look, 2_000, true, true).noise_ppm();
        assert_eq!(noise(&longer), noise(&look()));
    }

    #[test]
    fn where_nothing_was_seen_or_interrupts_were_lost_nobody_knows() {
        let none = FamilyLook::default();
        let mut lost = look();
        (lost.unpaired, lost.unbounded) = (1, 1);
        let mut unkept = look();
        unkept.unpaired = 1;
        for look in [none, lost, unkept] {
            let evidence = Evidence::traced(&look, 2_000, true, true);
            assert_eq!(evidence.taken_ns.most, None, "{look:?}");
            assert!(hidden(&evidence) > 0);
        }
    }

    #[test]
    fn steal_that_may_have_come_in_pieces_breaks_no_limit_for_sure() {
        let mut look = look();
        look.longest = [(FamilyTaken::Wait, 300), (FamilyTaken::Steal, 900)]
            .map(|(taken, ns)| FamilyLongest {
                taken,
                ns,
                until_mono_ns: 0,
                who: None,
            })
            .into();
        let evidence = Evidence::traced(&look, 10_000, true, true);
        let (least, most) = (300, Some(900));
        assert_eq!(evidence.longest_ns, Range { least, most });
    }
}
