"""Tables of measured passes: what the files hold, and what lies between and beyond the measurements."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.timing.sums import NO_DECODE, DecodeSums, PrefillSums
from engines.timing.surface import Surface
from engines.timing.table import TableModel, leave_one_out
from engines.timing.table_file import COLUMNS, MeasuredPass, read_table
from messages.errors import InputError

TABLE = """\
# ours, last week
prefill_tokens,prefill_kv_tokens,decode_requests,decode_kv_tokens,ms

100,0,,,10
300,0,,,20
100,1000,,,12
300,1000,,,26
,,1,100,4
,,1,300,5
,,10,1000,6
,,10,3000,16
"""


@pytest.fixture
def model(tmp_path: Path) -> TableModel:
    return TableModel.load(written(tmp_path, TABLE))


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def prefill_ms(model: TableModel, tokens: int, known: int = 0) -> float:
    return model.pass_ms(PrefillSums(1, known + tokens, known), NO_DECODE, 0)


def test_prefill_is_linear_in_new_and_known_tokens(model: TableModel) -> None:
    assert [prefill_ms(model, tokens) for tokens in (100, 200, 300)] == [10.0, 15.0, 20.0]
    assert prefill_ms(model, 100, 500) == 11.0
    assert prefill_ms(model, 200, 500) == 17.0


def test_decode_is_linear_in_mean_context_and_requests(model: TableModel) -> None:
    assert [model.decode_ms(1, tokens, 0) for tokens in (100, 200, 300)] == [4.0, 4.5, 5.0]
    assert [model.decode_ms(10, tokens, 0) for tokens in (1000, 2000, 3000)] == [6.0, 11.0, 16.0]
    assert model.decode_ms(4, 400, 0) == pytest.approx(4.0 + 2.0 / 3.0)


def test_outside_the_border_continues_where_it_rises(model: TableModel) -> None:
    assert prefill_ms(model, 500) == 30.0
    assert prefill_ms(model, 20) == 6.0
    assert prefill_ms(model, 100, 2000) == 14.0
    assert model.decode_ms(19, 1900, 0) == 8.0
    falling = Surface({(1.0, 1.0): 9.0, (1.0, 2.0): 7.0, (1.0, 3.0): 6.0})
    assert falling.at(5.0, np.array([0.0, 1.0, 10.0])).tolist() == [9.0, 9.0, 6.0]
    steep = Surface({(1.0, 10.0): 1.0, (1.0, 20.0): 5.0})
    assert steep.at(1.0, np.array([0.0])).tolist() == [0.0]


def test_a_curve_of_one_point_rises_as_its_neighbour() -> None:
    points = {(1.0, 100.0): 4.0, (10.0, 100.0): 6.0, (10.0, 300.0): 16.0}
    assert Surface(points).at(1.0, np.array([300.0])).tolist() == [14.0]
    assert Surface(points, proportional=True).at(1.0, np.array([300.0])).tolist() == [5.0]
    assert Surface({(1.0, 100.0): 4.0}).at(3.0, np.array([7.0])).tolist() == [4.0]


def test_repeated_passes_count_with_their_mean(tmp_path: Path) -> None:
    model = TableModel.load(written(tmp_path, TABLE + "100,0,0,0,14\n"))
    assert prefill_ms(model, 100) == 12.0


def test_passes_with_both_parts_give_the_overlap(tmp_path: Path, model: TableModel) -> None:
    both = (PrefillSums(1, 300, 0), DecodeSums(1, 300))
    assert model.overlap == 0.0
    assert model.pass_ms(*both, 0) == 25.0
    overlapping = TableModel.load(written(tmp_path, TABLE + "300,0,1,300,21\n"))
    assert overlapping.overlap == pytest.approx(0.8)
    assert overlapping.pass_ms(*both, 0) == pytest.approx(21.0)
    slower_than_the_sum = TableModel.load(written(tmp_path, TABLE + "300,0,1,300,29\n"))
    assert slower_than_the_sum.overlap == 0.0


def test_json_holds_the_same(tmp_path: Path) -> None:
    plain = read_table(written(tmp_path, TABLE))
    rows = [{name: row[index + 1] for index, name in enumerate(COLUMNS) if row[index + 1]} for row in plain]
    again = read_table(written(tmp_path, json.dumps({"passes": rows}), "table.json"))
    assert [row[1:] for row in again] == [row[1:] for row in plain]


def test_what_is_beyond_the_table_is_told(model: TableModel) -> None:
    prefill_ms(model, 200)
    model.decode_run_ms(5, np.array([1000, 1005]), 0)
    assert model.warnings() == []
    prefill_ms(model, 50)
    model.decode_run_ms(20, np.array([2000]), 0)
    first, second = model.warnings()
    assert "passes with prefill_tokens from 50 to 200 were timed, measured are 100 to 300" in first
    assert "passes with decode_requests from 5 to 20 were timed, measured are 1 to 10" in second


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        ("1.5,0,,,10", ":12: column prefill_tokens: expected an integer >= 0, got 1.5"),
        ("100,-1,,,10", ":12: column prefill_kv_tokens: expected an integer >= 0, got -1"),
        (",,x,10,10", ':12: column decode_requests: expected an integer >= 0, got "x"'),
        ("100,0,,,0", ":12: column ms: expected a number > 0, got 0"),
        ("100,0,,,nan", ":12: column ms: expected a number > 0, got NaN"),
        ("100,0,,,", ":12: column ms: expected a number > 0, got nothing"),
        ("0,0,0,0,1", ":12: column prefill_tokens: a pass without decode_requests computes prompt tokens, got 0"),
        (",7,1,9,1", ":12: column prefill_kv_tokens: without prefill_tokens there are none, got 7"),
        (",,3,2,1", ":12: column decode_kv_tokens: 3 requests hold at least 3 tokens, got 2"),
        ("9,,,2,1", ":12: column decode_kv_tokens: without decode_requests there are none, got 2"),
        ("1_00,0,,,10", ':12: column prefill_tokens: expected an integer >= 0, got "1_00"'),
        ("100,0,,,\uff11\uff10", ':12: column ms: expected a number > 0, got "\\uff11\\uff10"'),
        ("1,2,3", ":12: has 3 cells; the header has 5"),
    ],
)
def test_a_bad_row_is_named(row: str, finding: str, tmp_path: Path) -> None:
    path = written(tmp_path, TABLE + row + "\n")
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert caught.value.findings == (f"{path}{finding}",)


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("t.csv", "", ": is empty; expected a header with " + ", ".join(COLUMNS)),
        ("t.csv", "prefil_tokens,ms\n", ':1: unknown column "prefil_tokens"; did you mean "prefill_tokens"?'),
        ("t.csv", "prefill_tokens,decode_requests\n", ":1: column ms is missing; it holds how long each pass took"),
        ("t.csv", "ms,ms\n", ":1: column ms occurs twice"),
        (
            "t.csv",
            "prefill_tokens,ms\n8,2\n",
            ": has no decode pass, a row in which prefill_tokens is 0; it needs at least",
        ),
        ("t.json", "{", ": JSON is malformed: "),
        ("t.json", "[]", ': expected {"passes": [...]} with an object per pass'),
        ("t.json", '{"passes": [7]}', ": passes[0]: expected an object, got 7"),
        ("t.json", '{"passes": [{"ms": 1, "x": 2}]}', ': passes[0]: unknown column "x"; allowed: prefill_tokens'),
        ("t.json", '{"passes": [{"ms": true, "prefill_tokens": 2}]}', ": passes[0]: column ms: expected a number > 0"),
        (
            "t.json",
            f'{{"passes": [{{"ms": 1{"0" * 400}, "prefill_tokens": 2}}]}}',
            ": passes[0]: column ms: expected a number > 0",
        ),
    ],
)
def test_a_bad_file_is_refused(name: str, text: str, finding: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, name)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}{finding}")


def test_leave_one_out(tmp_path: Path) -> None:
    passes = read_table(written(tmp_path, TABLE + "200,0,,,16\n300,0,1,300,21\n"))
    predictions = {prediction.measured.where.rpartition(":")[2]: prediction for prediction in leave_one_out(passes)}
    assert sorted(predictions, key=int) == ["4", "5", "6", "7", "8", "9", "10", "11", "12"]
    between = predictions["12"]
    assert (between.kind, between.predicted_ms, between.outside) == ("prefill", 15.0, False)
    assert between.error == pytest.approx(-1.0 / 16.0)
    assert predictions["4"].predicted_ms == pytest.approx(12.0)


POINTS = st.dictionaries(
    st.tuples(st.integers(1, 8), st.integers(1, 1000)), st.floats(0.01, 1e4), min_size=1, max_size=20
)


@given(points=POINTS)
def test_measured_points_are_met_exactly(points: dict[tuple[float, float], float]) -> None:
    surface = Surface(points)
    assert {(y, x): surface.at(y, np.array([float(x)])).item(0) for y, x in points} == points


@given(
    ys=st.lists(st.integers(1, 50), min_size=1, max_size=5, unique=True),
    xs=st.lists(st.integers(1, 1000), min_size=1, max_size=5, unique=True),
    y=st.integers(0, 100),
    x=st.integers(0, 2000),
    rise=st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 5.0)),
)
def test_times_that_rise_go_on_rising_and_stay_between_their_neighbours(
    ys: list[int], xs: list[int], y: int, x: int, rise: tuple[float, float]
) -> None:
    surface = Surface({(a, b): 1.0 + rise[0] * a**0.5 + rise[1] * b**1.2 for a in ys for b in xs})
    here, right = surface.at(y, np.array([float(x), x + 7.0])).tolist()
    above = surface.at(y + 3, np.array([float(x)])).item(0)
    slack = 1e-9 * (1.0 + right + above)
    assert 0.0 <= here <= right + slack
    assert here <= above + slack
    if min(ys) <= y <= max(ys) and min(xs) <= x <= max(xs):
        corners = [
            surface.at(edge_y, np.array([float(edge_x)])).item(0)
            for edge_y in (min(ys), max(ys))
            for edge_x in (min(xs), max(xs))
        ]
        assert min(corners) - slack <= here <= max(corners) + slack


@given(count=st.integers(1, 30), context=st.integers(1, 2000), passes=st.integers(1, 60))
def test_a_run_equals_single_passes(count: int, context: int, passes: int) -> None:
    model = TableModel(
        [
            MeasuredPass("", 128, 0, 0, 0, 9.1),
            MeasuredPass("", 0, 0, 1, 512, 6.15),
            MeasuredPass("", 0, 0, 1, 1024, 6.3),
            MeasuredPass("", 0, 0, 12, 6144, 6.9),
            MeasuredPass("", 0, 0, 20, 10240, 7.7),
            MeasuredPass("", 0, 0, 20, 20480, 8.9),
        ]
    )
    tokens = count * context + np.arange(passes) * count
    assert model.decode_run_ms(count, tokens, 0).tolist() == [model.decode_ms(count, int(held), 0) for held in tokens]
