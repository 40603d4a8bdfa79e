"""Checks a comparison of two groups (vmnoise.compare/1, on stdin) with scipy: every p, Holm's
correction, and each interval, which must be the shifts that scipy's test does not reject."""

import json
import sys

import numpy
from scipy.stats import mannwhitneyu, permutation_test

LEAST = 1e-9


def u_statistic(second, first, axis):
    return mannwhitneyu(second, first, axis=axis, method="asymptotic").statistic


def p_of(before, after):
    values = before + after
    if len(set(values)) == len(values):
        return mannwhitneyu(after, before, method="exact").pvalue
    # scipy's exact method does not support ties, so all permutations are tested.
    tested = permutation_test(
        (after, before), u_statistic, vectorized=True, n_resamples=numpy.inf, alternative="two-sided"
    )
    return tested.pvalue


def holm(p):
    order = sorted(range(len(p)), key=p.__getitem__)
    corrected, largest = [0.0] * len(p), 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, p[at] * (len(p) - rank)))
        corrected[at] = largest
    return corrected


def check_interval(figure, before, after, level):
    differences = sorted(b - a for a in before for b in after)
    assert figure["shift"] == numpy.median(differences), figure
    interval = figure["interval"]
    for low, high in zip(differences, differences[1:]):
        # Without ties the interval is exactly that of the test; with ties it may be wider.
        middle = (low + high) / 2
        shifted = [b - middle for b in after]
        if high - low < LEAST or len(set(before + shifted)) < len(before + shifted):
            continue
        is_kept = mannwhitneyu(shifted, before, method="exact").pvalue > level
        is_inside = interval is None or interval["low"] <= middle <= interval["high"]
        assert is_kept == is_inside, (figure, middle)


def main():
    groups = json.load(sys.stdin)["groups"]
    tested = [figure for figure in groups["figures"] if figure["p"] is not None]
    expected = [p_of(figure["before"], figure["after"]) for figure in tested]
    corrected = holm(expected)
    ties = 0
    for figure, p, of_all in zip(tested, expected, corrected):
        values = figure["before"] + figure["after"]
        ties += len(set(values)) < len(values)
        assert abs(figure["p"] - p) < LEAST, (figure, p)
        assert abs(figure["corrected_p"] - of_all) < LEAST, (figure, of_all)
        is_shown = figure["verdict"] == "different"
        assert is_shown == (of_all <= groups["level"]), figure
        check_interval(figure, figure["before"], figure["after"], groups["level"])
    assert groups["tested"] == len(tested)
    print(json.dumps({"tested": len(tested), "ties": ties}))


main()
