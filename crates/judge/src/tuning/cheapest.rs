//! Choice of the cheapest setting, although differences may be chance.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Returns the index of the cheapest setting; `None` without settings. `costs` has the costs of
/// each setting, one for each window.
///
/// A later setting replaces an earlier one only if its advantage is larger than chance explains.
/// The test is Student's t-test over the differences between windows that were measured at about
/// the same time. The probability of any wrong choice is at most `risk`.
pub fn cheapest(costs: &[&[f64]], risk: f64) -> Option<usize> {
    let tests = costs.len().saturating_sub(1).max(1);
    let mut chosen = 0;
    for place in 1..costs.len() {
        if is_cheaper(costs[place], costs[chosen], risk / tests as f64) {
            chosen = place;
        }
    }
    (!costs.is_empty()).then_some(chosen)
}

fn is_cheaper(costs: &[f64], than: &[f64], risk: f64) -> bool {
    let saved: Vec<f64> = than.iter().zip(costs).map(|(a, b)| a - b).collect();
    let many = saved.len() as f64;
    let Ok(student) = StudentsT::new(0.0, 1.0, many - 1.0) else {
        return false;
    };
    let mean = saved.iter().sum::<f64>() / many;
    let squares: f64 = saved.iter().map(|it| (it - mean).powi(2)).sum();
    let error = (squares / (many - 1.0) / many).sqrt();
    mean > student.inverse_cdf(1.0 - risk) * error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_cheaper_each_time_is_chosen() {
        let (first, second) = ([10.0, 12.0, 11.0, 14.0], [5.0, 6.9, 6.2, 9.0]);
        assert_eq!(cheapest(&[&first, &second], 0.01), Some(1));
        assert_eq!(cheapest(&[&second, &first], 0.01), Some(0));
    }

    #[test]
    fn a_difference_that_may_be_chance_changes_nothing() {
        let (first, second) = ([10.0, 12.0, 11.0, 14.0], [9.9, 12.4, 10.2, 13.9]);
        assert_eq!(cheapest(&[&first, &second], 0.01), Some(0));
        assert_eq!(cheapest(&[&second, &first], 0.01), Some(0));
        // One window does not show how much costs vary by chance.
        assert_eq!(cheapest(&[&[10.0], &[1.0]], 0.01), Some(0));
        assert_eq!(cheapest(&[&[10.0, 10.0], &[10.0, 10.0]], 0.01), Some(0));
    }

    #[test]
    fn of_none_none_is_chosen() {
        assert_eq!(cheapest(&[], 0.01), None);
    }
}
