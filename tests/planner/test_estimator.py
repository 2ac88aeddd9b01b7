"""The performance model: what it learns, what it keeps, and what it says."""

from __future__ import annotations

import pytest

from actors.planner.averages import MovingAverage
from actors.planner.estimator import ForwardPassModel, PassError, PassShape
from actors.planner.regression import fit
from actors.planner.samples import Sample, SampleGrid


def test_a_plane_is_found_again() -> None:
    points = [(float(x), float(y)) for x in range(4) for y in range(3)]
    found = fit(points, [5 + 2 * x + 3 * y for x, y in points])
    assert found is not None
    assert found.at((10.0, 20.0)) == pytest.approx(85.0)


def test_slopes_are_never_negative() -> None:
    points = [(float(x), float(y)) for x in range(4) for y in range(3)]
    found = fit(points, [5 + 2 * x - 3 * y for x, y in points])
    assert found is not None
    assert found.slopes[1] == 0.0
    assert found.at((2.0, 0.0)) == found.at((2.0, 9.0)) == pytest.approx(5 + 2 * 2 - 3)


def test_values_that_do_not_rise_say_nothing() -> None:
    assert fit([(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)], [3.0, 2.0, 1.0]) is None
    assert fit([(1.0, 1.0)] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]) is None


def test_axes_that_say_the_same_share_the_slope() -> None:
    found = fit([(float(x), 2.0 * x) for x in range(6)], [1 + 4.0 * x for x in range(6)])
    assert found is not None
    assert found.at((7.0, 14.0)) == pytest.approx(29.0)


def test_the_fullest_region_gives_up_its_oldest_sample() -> None:
    grid = SampleGrid(capacity=4, cells=4)
    lone = Sample((0.0, 0.0), 1.0)
    crowd = [Sample((1000.0 + i, 1000.0), float(i)) for i in range(5)]
    for sample in (lone, *crowd):
        grid.add(sample)
    assert grid.samples == [lone, *crowd[2:]]


def test_a_store_answers_after_enough_varied_passes() -> None:
    model = ForwardPassModel("prefill", capacity=64, cells=16, min_observations=3)
    shapes = [PassShape(num_prefill=1, prefill_tokens=tokens) for tokens in (100, 100, 100, 300)]
    for shape in shapes[:3]:
        model.learn([(shape, 8.5)])
    assert not model.is_ready
    assert model.estimate_ms(shapes[0]) is None
    model.learn([(shapes[3], 15.5)])
    assert model.is_ready
    assert model.estimate_ms(PassShape(num_prefill=1, prefill_tokens=300)) == pytest.approx(15.5)


def test_idle_and_timeless_passes_teach_nothing() -> None:
    model = ForwardPassModel("decode", capacity=64, cells=16, min_observations=1)
    model.learn([(PassShape(), 0.0), (PassShape(num_decode=1, decode_kv=10), 0.0)])
    assert not model.is_ready
    assert model.estimate_ms(PassShape()) == 0.0


def test_passes_of_another_role_are_refused_with_all_that_came_with_them() -> None:
    model = ForwardPassModel("decode", capacity=64, cells=16, min_observations=2)
    good = [(PassShape(num_decode=n, decode_kv=100 * n), 6.0 + n) for n in (1, 2)]
    with pytest.raises(PassError):
        model.learn([*good, (PassShape(1, 20, 0, 1, 10), 9.0)])
    assert not model.is_ready
    model.learn(good)
    assert model.is_ready


def test_each_kind_of_pass_of_an_aggregated_worker_has_its_own_store() -> None:
    model = ForwardPassModel("aggregated", capacity=64, cells=16, min_observations=2)
    model.learn([(PassShape(num_decode=n, decode_kv=100 * n), 6.0 + n) for n in (1, 2)])
    assert model.is_ready
    assert model.estimate_ms(PassShape(num_decode=3, decode_kv=300)) == pytest.approx(9.0)
    assert model.estimate_ms(PassShape(1, 50, 0, 3, 300)) is None


def test_a_moving_average_begins_with_the_first_positive_value() -> None:
    average = MovingAverage(length=3)
    assert average.value == 0.0
    for value, mean in ((0, 0.0), (4, 4.0), (0, 2.0), (2, 2.0), (10, 4.0)):
        average.add(value)
        assert average.value == mean
