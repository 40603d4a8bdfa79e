use super::*;

fn drawn(count: usize, seed: u64, quantile: impl Fn(f64) -> f64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let values = (0..count).map(|_| quantile(1.0 - random.f64()));
    values.map(|it| it.round() as u64).collect()
}

/// An exponential distribution has a tail of shape 0. The largest of n values is on average the
/// scale times (ln n + Euler's constant).
#[test]
fn the_largest_of_more_exponential_values_is_where_theory_has_it() {
    let mean_ns = 1e6;
    let values = drawn(10_000, 7, |above| -mean_ns * above.ln());
    let tail = Tail::fit(&values).unwrap();
    assert_eq!((tail.values, tail.peaks), (10_000, 200));
    // The standard error of the likelihood fit of the shape is (1 + shape) / sqrt(n) = 1 /
    // sqrt(200). Four standard errors are 0.28.
    assert!(tail.shape.abs() < 0.28, "{tail:?}");
    let theory = mean_ns * (1e6_f64.ln() + EULER);
    let found = tail.expected_max_ns(1e6).unwrap();
    // The largest is ln 50 + (20,000^shape * Gamma(1 - shape) - 1) / shape times the mean: 14.4
    // for a shape of 0, 7.2 for -0.28, and 74 for 0.28.
    assert!((0.5..5.2).contains(&(found / theory)), "{found} {theory}");
    let p99 = tail.quantile_ns(0.99).unwrap();
    let theory = mean_ns * 100_f64.ln();
    assert!((p99 / theory - 1.0).abs() < 0.05, "{p99} {theory}");
    assert_eq!(tail.quantile_ns(0.5), None);
    assert_eq!(tail.expected_max_ns(100.0), None);
}

#[test]
fn a_heavy_tail_has_its_shape() {
    // P(X > x) = x^-4 has the shape 1/4.
    let values = drawn(10_000, 8, |above| 1e6 * above.powf(-0.25));
    let tail = Tail::fit(&values).unwrap();
    // The allowed error is two standard errors of (1 + shape) / sqrt(200) each.
    assert!((tail.shape - 0.25).abs() < 0.18, "{tail:?}");
    // The largest of n Pareto values is n^(1/4) * Gamma(3/4) on average.
    let theory = 1e6 * 1e6_f64.powf(0.25) * libm::tgamma(0.75);
    let found = tail.expected_max_ns(1e6).unwrap();
    // The result is 1 + (20,000^shape * Gamma(1 - shape) - 1) / (4 shape) times the threshold:
    // 14.6 for a shape of 0.25, 4.9 for 0.07, and 66 for 0.43.
    assert!((0.33..4.6).contains(&(found / theory)), "{found} {theory}");
}

/// If the distribution has no variance, values that were not recorded decide the longest value.
#[test]
fn what_rests_on_values_that_were_not_seen_is_not_extrapolated() {
    let heavy = |alpha: f64| {
        let tails = (0..100).filter(move |seed| {
            let values = drawn(10_000, 2_000 + seed, |above| 1e6 * above.powf(-1.0 / alpha));
            let tail = Tail::fit(&values).unwrap();
            assert_eq!(tail.shape >= 0.5, tail.expected_max_ns(1e6).is_none());
            tail.is_heavy()
        });
        tails.count()
    };
    // The shape is 0.77. A fitted shape of 0.5 is 2.2 standard errors of 0.125 below. So one or
    // two of 100 fits are below 0.5, and the test rejects one more. With p = 0.03, a binomial
    // number is at most seven in 98 of 100 tries, and four deviations are 10.
    assert!(heavy(1.3) >= 90, "{}", heavy(1.3));
    // The shape is 0.25. A fitted shape of 0.5 is 2.8 standard errors of 0.088 above. With p =
    // 0.003, a binomial number is at most four in 99.9 of 100 tries.
    assert!(heavy(4.0) <= 4, "{}", heavy(4.0));
}

/// Ticks of one length and bursts without variance: a third of the longest delays are steps with
/// two ticks, so no tail fits them. All of the longest 50 delays are bursts.
#[test]
fn a_heavy_tail_above_ticks_is_not_light() {
    let values = |seed: u64| -> Vec<u64> {
        let bursts = drawn(100, seed, |above| 5e3 + 5e3 * above.powf(-1.0 / 1.3));
        [vec![5_000; 9_850], vec![10_000; 50], bursts].concat()
    };
    assert_eq!(Tail::fit(&values(1)).unwrap().weight(), TailWeight::Unknown);
    let mut seeds = fastrand::Rng::with_seed(1);
    let light = (0..100).filter(|_| {
        let (weight, _) = judge_largest(10_000, &values(seeds.u64(..)));
        weight == TailWeight::Light
    });
    let light = light.count();
    // A fit of this shape is light in one of 60 cases. With p = 1 / 60, a binomial number is at
    // most six in 99 of 100 tries.
    assert!(light <= 6, "{light}");
}

/// Nearly all fits of the exponential distribution show its variance.
#[test]
fn a_light_tail_is_seldom_unknown() {
    let mut seeds = fastrand::Rng::with_seed(2);
    let unknown = (0..100).filter(|_| {
        let values = drawn(10_000, seeds.u64(..), |above| -1e6 * above.ln());
        judge_largest(10_000, &values).0 != TailWeight::Light
    });
    let unknown = unknown.count();
    // The test rejects one fit in ten. The fit to the largest 50 fails as well if the test
    // rejects it, or if its shape is 1.6 standard errors too large. Its peaks are among the
    // first, so assume that it fails in half of the cases. With p = 0.05, the mean is 5 and the
    // standard deviation is 2.2. The bound is 2.7 deviations above the mean.
    assert!(unknown <= 11, "{unknown}");
}

#[test]
fn few_unlike_values_have_a_tail_of_unknown_weight() {
    let unlike = (0..40).map(|nth| (5e3 * 1.2_f64.powi(nth)) as u64);
    let values: Vec<u64> = [0; 9_960].into_iter().chain(unlike).collect();
    assert_eq!(judge_largest(10_000, &values), (TailWeight::Unknown, None));
}

#[test]
fn values_with_alike_largest_ones_have_a_light_tail() {
    let equal = |count: usize, ns: u64| vec![ns; count];
    let near: Vec<u64> = (0..11).map(|nth| 500_000 + nth * 1_000).collect();
    for values in [
        Vec::new(),
        equal(1_000, 0),
        equal(1_000, 7),
        [equal(9_960, 5_000), equal(40, 300_000)].concat(),
        [equal(9_989, 2_000), near].concat(),
    ] {
        let judged = judge_largest(values.len() as u64, &values);
        assert_eq!(judged, (TailWeight::Light, None));
    }
}

#[test]
fn values_without_variance_are_hardly_ever_alike() {
    let mut seeds = fastrand::Rng::with_seed(3);
    let alike = (0..2_000).filter(|_| {
        let mut values = drawn(1_000, seeds.u64(..), |above| 1e6 * above.powf(-0.5));
        values.sort_unstable();
        are_alike(&values)
    });
    let alike = alike.count();
    // The number is binomial with n = 2,000 and p = (1 - 0.9^2)^3 = 0.0069: its mean is 13.7,
    // and its standard deviation is 3.7. The upper bound is four deviations above the mean.
    assert!((1..=28).contains(&alike), "{alike}");
}

/// The peaks are of two kinds, and all long peaks are alike. No generalized Pareto distribution
/// fits.
#[test]
fn what_is_no_such_tail_is_refused() {
    let mut values = drawn(9_900, 9, |above| -1e5 * above.ln());
    values.extend((0..100).map(|nth| 5_000_000 + nth * 7));
    let tail = Tail::fit(&values).unwrap();
    assert!(!tail.fits(), "{tail:?}");
}

/// One value lies far above the largest value of a tail with negative shape.
#[test]
fn a_tail_that_ends_below_what_was_seen_is_refused() {
    // The largest 200 values are evenly spaced, except one that is three times as far above the
    // threshold.
    let mut values: Vec<u64> = (0..9_000).collect();
    values.extend((0..1_000).map(|nth| 10_000 + nth * 1_000));
    values.push(1_340_000);
    let tail = Tail::fit(&values).unwrap();
    assert!(!tail.fits(), "{tail:?}");
}

/// The test rejects about one in ten correct tails.
#[test]
fn right_tails_are_refused_as_often_as_the_level_says() {
    let refused = (0..200).filter(|seed| {
        let values = drawn(600, 1_000 + seed, |above| -1e6 * above.ln());
        !Tail::fit(&values).unwrap().fits()
    });
    let refused = refused.count();
    // The number is binomial with n = 200 and p = 0.1: its mean is 20, and its standard
    // deviation is 4.2. The bounds are five deviations away.
    assert!((1..=41).contains(&refused), "{refused}");
}

#[test]
fn few_values_and_equal_ones_have_no_tail() {
    assert_eq!(Tail::fit(&[]), None);
    assert_eq!(Tail::fit(&(0..50).collect::<Vec<u64>>()), None);
    assert_eq!(Tail::fit(&[7; 1_000]), None);
}
