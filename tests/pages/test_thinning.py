"""Fewer points for the same picture."""

from __future__ import annotations

import numpy as np

from actors.pages.thinning import cdf_points, thin


def test_short_curves_stay_as_they_are() -> None:
    xs, ys = np.arange(5.0), np.ones(5)
    assert thin(xs, ys)[0] is xs


def test_long_curves_keep_their_ends_and_extremes() -> None:
    xs = np.arange(100_000.0)
    ys = np.sin(xs / 5000)
    ys[43_210], ys[77_777] = 50.0, -50.0
    thin_xs, thin_ys = thin(xs, ys, 400)
    assert len(thin_xs) <= 401
    assert (np.diff(thin_xs) > 0).all()
    assert {0.0, 43_210.0, 77_777.0, 99_999.0} <= set(thin_xs.tolist())
    assert thin_ys.tolist() == ys[thin_xs.astype(int)].tolist()


def test_curves_with_gaps_and_equal_xs_are_thinned_too() -> None:
    xs = np.concatenate([np.zeros(1000), np.full(1000, 9.0)])
    thin_xs, _ = thin(xs, np.arange(2000.0), 100)
    assert set(thin_xs.tolist()) == {0.0, 9.0}
    assert len(thin_xs) <= 100


def test_distribution_of_a_small_sample_is_exact() -> None:
    xs, shares = cdf_points(np.array([3.0, 1.0, 1.0, 2.0]))
    assert xs.tolist() == [1.0, 1.0, 1.0, 2.0, 3.0]
    assert shares.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [len(part) for part in cdf_points(np.array([]))] == [0, 0]


def test_distribution_of_a_large_sample_is_thinned_and_true() -> None:
    sample = np.random.default_rng(0).exponential(size=50_000)
    xs, shares = cdf_points(sample, 400)
    assert len(xs) <= 401
    assert (xs[0], xs[-1], shares[0], shares[-1]) == (sample.min(), sample.max(), 0.0, 1.0)
    true = np.searchsorted(np.sort(sample), xs[1:], side="right") / len(sample)
    assert shares[1:].tolist() == true.tolist()
    assert np.diff(shares).max() < 0.005
    assert (shares > 0.999).sum() > 20
