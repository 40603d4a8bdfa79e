//! Verdicts on the conclusions of a paper, from the figures of measured cells.

use std::fmt;

use crate::accel::Accel;
use crate::figures::RepetitionFigures;
use crate::scenario::{Conclusion, Statistic};

/// Verdict on a conclusion of a paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaperVerdict {
    /// The conclusion holds for every pair of repetitions of its two cells.
    Reproduced,
    /// The conclusion holds for no pair of repetitions.
    NotReproduced,
    /// No verdict is possible. The text is the reason.
    CannotBeJudged(String),
}

impl fmt::Display for PaperVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaperVerdict::Reproduced => f.write_str("reproduced"),
            PaperVerdict::NotReproduced => f.write_str("not reproduced"),
            PaperVerdict::CannotBeJudged(why) => {
                write!(f, "cannot be judged in this environment: {why}")
            }
        }
    }
}

/// Verdict on a conclusion, and the measured range.
#[derive(Debug, Clone, PartialEq)]
pub struct ConclusionVerdict {
    /// The verdict.
    pub verdict: PaperVerdict,
    /// Smallest and largest quotient of two repetitions. For a single cell, smallest and largest
    /// part of a repetition. `None` without figures.
    pub quotients: Option<[f64; 2]>,
}

/// Judges a conclusion by the repetitions of its two cells, or of its only cell. Both cells must
/// have run in the same environment. A cell that was not measured has no repetitions.
pub fn judge(
    conclusion: &Conclusion,
    accel: Accel,
    of: &[RepetitionFigures],
    by: Option<&[RepetitionFigures]>,
) -> ConclusionVerdict {
    let quotients = quotients(conclusion.statistic, of, by);
    let not_here = conclusion.not_in_emulation.as_ref();
    let verdict = match (not_here.filter(|_| accel == Accel::Tcg), &quotients) {
        (_, None) if of.is_empty() || by.is_some_and(<[RepetitionFigures]>::is_empty) => {
            PaperVerdict::CannotBeJudged("a cell was not measured".to_owned())
        }
        (_, None) => PaperVerdict::CannotBeJudged("no such figure was measured".to_owned()),
        (Some(why), Some(_)) => PaperVerdict::CannotBeJudged(why.clone()),
        (None, Some(quotients)) => {
            let agreed = quotients.iter().filter(|it| conclusion.agrees(**it));
            match agreed.count() {
                0 => PaperVerdict::NotReproduced,
                all if all == quotients.len() => PaperVerdict::Reproduced,
                _ => PaperVerdict::CannotBeJudged("its repetitions disagree".to_owned()),
            }
        }
    };
    let range = quotients.map(|all| all.iter().fold([f64::INFINITY, 0.0], range));
    ConclusionVerdict {
        verdict,
        quotients: range,
    }
}

fn range([least, most]: [f64; 2], it: &f64) -> [f64; 2] {
    [least.min(*it), most.max(*it)]
}

/// Returns the quotients of all pairs of repetitions. For a single cell, returns the figures of its
/// repetitions.
fn quotients(
    statistic: Statistic,
    of: &[RepetitionFigures],
    by: Option<&[RepetitionFigures]>,
) -> Option<Vec<f64>> {
    let figures = |cell: &[RepetitionFigures]| {
        let all = cell.iter().map(|it| it.statistic(statistic));
        all.collect::<Option<Vec<f64>>>()
    };
    let (of, by) = (figures(of)?, by.map_or(Some(vec![1.0]), figures)?);
    let of_one = |of: f64| by.iter().map(move |by| of / by);
    let quotients: Vec<f64> = of.iter().flat_map(|of| of_one(*of)).collect();
    // Division of a figure by 0 gives infinity, which is a valid quotient. Division of 0 by 0 gives
    // none.
    let are_some = !quotients.is_empty() && quotients.iter().all(|it| !it.is_nan());
    are_some.then_some(quotients)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    fn cell(worst_ns: &[u64]) -> Vec<RepetitionFigures> {
        let figures = worst_ns.iter().map(|&worst_ns| RepetitionFigures {
            lengths: vec![(worst_ns, 1)],
            worst_ns,
            ..RepetitionFigures::default()
        });
        figures.collect()
    }

    fn lower() -> Conclusion {
        Conclusion {
            text: "RT is lower".to_owned(),
            source: "Table 2".to_owned(),
            statistic: Statistic::Worst,
            of: "rt".to_owned(),
            by: Some("ordinary".to_owned()),
            at_most: Some(0.5),
            at_least: None,
            not_in_emulation: None,
        }
    }

    #[test]
    fn it_is_reproduced_only_if_every_repetition_says_so() {
        let verdict = |of: &[u64], by: &[u64]| {
            judge(&lower(), Accel::Tcg, &cell(of), Some(&cell(by))).verdict
        };
        assert_eq!(verdict(&[10, 20], &[40, 50]), PaperVerdict::Reproduced);
        assert_eq!(verdict(&[30, 40], &[40, 50]), PaperVerdict::NotReproduced);
        let disagree = PaperVerdict::CannotBeJudged("its repetitions disagree".to_owned());
        assert_eq!(verdict(&[10, 30], &[40, 50]), disagree);
    }

    #[test]
    fn between_two_bounds_repetitions_may_disagree_on_either_side() {
        let alike = Conclusion {
            at_most: Some(1.25),
            at_least: Some(0.8),
            ..lower()
        };
        let verdict =
            |of: &[u64], by: &[u64]| judge(&alike, Accel::Tcg, &cell(of), Some(&cell(by))).verdict;
        let disagree = PaperVerdict::CannotBeJudged("its repetitions disagree".to_owned());
        assert_eq!(verdict(&[50, 100], &[50, 100]), disagree);
        assert_eq!(verdict(&[100, 110], &[100]), PaperVerdict::Reproduced);
        assert_eq!(verdict(&[10, 1_000], &[100]), PaperVerdict::NotReproduced);
    }

    #[test]
    fn the_same_figures_are_no_lower() {
        let judged = judge(&lower(), Accel::Tcg, &cell(&[40]), Some(&cell(&[40])));
        assert_eq!(judged.verdict, PaperVerdict::NotReproduced);
        assert_eq!(judged.quotients, Some([1.0, 1.0]));
    }

    #[test]
    fn a_lower_bound_is_one_too() {
        let higher = Conclusion {
            at_most: None,
            at_least: Some(10.0),
            ..lower()
        };
        let verdict = |of: &[u64]| judge(&higher, Accel::Tcg, &cell(of), Some(&cell(&[2]))).verdict;
        assert_eq!(verdict(&[20]), PaperVerdict::Reproduced);
        assert_eq!(verdict(&[19]), PaperVerdict::NotReproduced);
        let of_nothing = judge(&higher, Accel::Tcg, &cell(&[20]), Some(&cell(&[0]))).verdict;
        assert_eq!(of_nothing, PaperVerdict::Reproduced);
    }

    #[test]
    fn a_part_stands_for_itself() {
        let mostly_explained = Conclusion {
            statistic: Statistic::Explained,
            by: None,
            at_most: None,
            at_least: Some(0.95),
            ..lower()
        };
        let verdict = |unexplained_ns: &[u64]| {
            let figures = unexplained_ns
                .iter()
                .map(|&unexplained_ns| RepetitionFigures {
                    unexplained_ns,
                    ..cell(&[100])[0].clone()
                });
            judge(
                &mostly_explained,
                Accel::Tcg,
                &figures.collect::<Vec<_>>(),
                None,
            )
            .verdict
        };
        assert_eq!(verdict(&[5, 0]), PaperVerdict::Reproduced);
        assert_eq!(verdict(&[6, 100]), PaperVerdict::NotReproduced);
        let disagree = PaperVerdict::CannotBeJudged("its repetitions disagree".to_owned());
        assert_eq!(verdict(&[5, 6]), disagree);
        assert_ne!(verdict(&[]), PaperVerdict::Reproduced);
    }

    #[test]
    fn exits_that_went_to_the_vmm_are_told_from_those_that_did_not() {
        let light = Conclusion {
            statistic: Statistic::HeavyExits,
            by: None,
            ..lower()
        };
        let verdict = |light_exits, heavy_exits| {
            let figures = RepetitionFigures {
                light: light_exits,
                heavy: heavy_exits,
                ..RepetitionFigures::default()
            };
            judge(&light, Accel::Tcg, &[figures], None).verdict
        };
        assert_eq!(verdict(Some(9), Some(1)), PaperVerdict::Reproduced);
        assert_eq!(verdict(Some(1), Some(9)), PaperVerdict::NotReproduced);
        let nothing = PaperVerdict::CannotBeJudged("no such figure was measured".to_owned());
        assert_eq!(verdict(None, Some(0)), nothing, "it was not witnessed");
        assert_eq!(verdict(Some(0), Some(0)), nothing);
    }

    #[test]
    fn without_a_cell_or_where_emulation_cannot_tell_nothing_is_said() {
        let judged = judge(&lower(), Accel::Tcg, &[], Some(&cell(&[40])));
        assert!(matches!(judged.verdict, PaperVerdict::CannotBeJudged(_)));
        assert_eq!(judged.quotients, None);
        let nowhere = Conclusion {
            not_in_emulation: Some("one CPU".to_owned()),
            ..lower()
        };
        let judged = judge(&nowhere, Accel::Tcg, &cell(&[10]), Some(&cell(&[40])));
        assert_eq!(
            judged.verdict,
            PaperVerdict::CannotBeJudged("one CPU".to_owned())
        );
        let on_a_host = judge(&nowhere, Accel::Kvm, &cell(&[10]), Some(&cell(&[40])));
        assert_eq!(on_a_host.verdict, PaperVerdict::Reproduced);
        let judged = judge(&lower(), Accel::Tcg, &cell(&[0]), Some(&cell(&[0])));
        assert_eq!(judged.quotients, None);
    }
}
