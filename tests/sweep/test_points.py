"""From a sweep file to its points, and everything that can be wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.sweep.keys import weighable_keys
from actors.sweep.points import Sweep, check_files, load_sweep
from messages.errors import InputError
from tests.sweep.documents import BLOCKS, ONE_REQUEST, WORKERS, trace_spec, write_sweep, write_trace


def loaded(folder: Path, **document: Any) -> Sweep:
    return load_sweep(write_sweep(folder, {"base": ONE_REQUEST, "axes": {BLOCKS: [100]}, **document}))


def findings(folder: Path, **document: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        loaded(folder, **document)
    label = f"{folder / 'sweep.json'}: "
    assert all(finding.startswith(label) for finding in caught.value.findings)
    return [finding.removeprefix(label) for finding in caught.value.findings]


def test_a_grid_takes_every_combination_the_last_axis_fastest(tmp_path: Path) -> None:
    sweep = loaded(tmp_path, axes={WORKERS: [1, 2], BLOCKS: [100, 200, 300]})
    assert [tuple(point.axes.values()) for point in sweep.points] == [
        (1, 100),
        (1, 200),
        (1, 300),
        (2, 100),
        (2, 200),
        (2, 300),
    ]
    assert [point.spec.engine.rank.num_gpu_blocks for point in sweep.points] == [100, 200, 300, 100, 200, 300]
    assert [point.index for point in sweep.points] == [0, 1, 2, 3, 4, 5]


def test_a_list_takes_the_values_of_all_axes_together(tmp_path: Path) -> None:
    sweep = loaded(tmp_path, mode="list", axes={WORKERS: [1, 2], BLOCKS: [100, 200]})
    assert [tuple(point.axes.values()) for point in sweep.points] == [(1, 100), (2, 200)]


def test_values_are_of_any_type_and_reach_into_lists(tmp_path: Path) -> None:
    sweep = loaded(
        tmp_path,
        mode="list",
        axes={
            "requests.0.input_tokens": [10, 20],
            "engine.rank": [{"backend": "vllm"}, {"backend": "trtllm"}],
            "engine.rank.block_size": [16, 32],
        },
    )
    assert [(p.spec.prompt_rank.backend, p.spec.prompt_rank.block_size) for p in sweep.points] == [
        ("vllm", 16),
        ("trtllm", 32),
    ]
    assert [point.axes["engine.rank"] for point in sweep.points] == [{"backend": "vllm"}, {"backend": "trtllm"}]


def test_paths_start_from_the_file_that_they_stand_in(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    write_sweep(tmp_path / "specs", trace_spec(), "spec.json")
    write_trace(tmp_path / "specs")
    (point,) = loaded(tmp_path, base="specs/spec.json").points
    assert list(point.inputs) == [str(tmp_path / "specs" / "trace.jsonl")]

    write_trace(tmp_path)
    (inline,) = loaded(tmp_path, base=trace_spec()).points
    assert list(inline.inputs) == [str(tmp_path / "trace.jsonl")]
    # The same run, wherever its trace lies.
    assert inline.digest == point.digest


def test_the_digest_is_that_of_all_a_run_depends_on(tmp_path: Path) -> None:
    write_trace(tmp_path)
    before = loaded(tmp_path, base=trace_spec(), axes={BLOCKS: [100, 200]})
    assert before.points[0].digest != before.points[1].digest
    defaults_written_out = {**trace_spec(), "record_per_request": False, "engine": {"rank": {"max_num_seqs": 256}}}
    same = loaded(tmp_path, base=defaults_written_out, axes={BLOCKS: [200, 100]})
    assert [point.digest for point in same.points] == [point.digest for point in reversed(before.points)]

    (tmp_path / "trace.jsonl").write_text((tmp_path / "trace.jsonl").read_text().replace("600", "601"))
    after = loaded(tmp_path, base=trace_spec(), axes={BLOCKS: [100, 200]})
    assert not {point.digest for point in before.points} & {point.digest for point in after.points}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"axis": {}}, 'axis: unknown key; did you mean "axes"?'),
        ({"axes": {}}, "axes: expected at least one path with its values"),
        ({"axes": {BLOCKS: []}}, f"axes: {BLOCKS}: expected at least one value"),
        ({"axes": {"a..b": [1]}}, 'axes: expected dotted paths such as "engine.rank.block_size", got "a..b"'),
        ({"axes": {BLOCKS: 5}}, f'axes."{BLOCKS}": expected a list, got 5'),
        ({"base": 5}, "base: expected a non-empty string or an object, got 5"),
        ({"mode": "gird"}, 'mode: unknown mode "gird"; expected "grid" or "list"; did you mean "grid"?'),
        (
            {"mode": "list", "axes": {WORKERS: [1], BLOCKS: [1, 2]}},
            f'axes: mode "list" takes equally many values of every axis, got {WORKERS} 1, {BLOCKS} 2',
        ),
        (
            {"objective": {"key": "p99_ttf_ms", "goal": "min"}},
            'objective.key: unknown key "p99_ttf_ms"; did you mean "p99_ttft_ms"?',
        ),
        (
            {"objective": {"key": "wall_time_ms", "goal": "min"}},
            "objective.key: wall_time_ms tells of the host, not of the cluster, and differs from run to run",
        ),
        ({"objective": {"key": "power_w", "goal": "min"}}, "objective.key: power_w has no number"),
        ({"objective": {"key": "gpu_hours"}}, "objective.goal: missing; it is required"),
        ({"second_objective": {"key": "gpu_hours", "goal": "min"}}, "second_objective: needs an objective"),
        (
            {"constraints": [{"key": "gpu_hours", "op": "=<", "value": 1}]},
            'constraints[0].op: unknown op "=<"; expected "!=" or "<" or "<=" or "==" or ">" or ">="',
        ),
        (
            {"constraints": [{"key": "gpu_hours", "op": "<", "value": "1"}]},
            'constraints[0].value: expected an integer or a number, got "1"',
        ),
        (
            {"constraints": [{"key": "goodput_request_throughput_rps", "op": ">", "value": 1}]},
            f"point 0 ({BLOCKS}=100): constraints[0].key: goodput_request_throughput_rps needs bounds in sla",
        ),
        ({"axes": {"engine.rank.blocks": [1]}}, "point 0 (engine.rank.blocks=1): engine.rank.blocks: unknown key"),
        (
            {"axes": {WORKERS: [1, 2], BLOCKS: [100, 0]}},
            f"point 1 ({WORKERS}=1, {BLOCKS}=0): engine.rank.num_gpu_blocks: expected an integer >= 1, got 0 "
            "(and 1 other point)",
        ),
        (
            {"axes": {"requests.3.id": ["b"]}},
            "point 0 (requests.3.id=b): axes: requests.3.id: requests is a list of 1; expected an index below that",
        ),
    ],
)
def test_faults_are_named_before_anything_runs(change: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert findings(tmp_path, **change)[0].startswith(expected)


def test_faults_of_the_files_that_points_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        loaded(tmp_path, base="nowhere.json")
    with pytest.raises(InputError, match=r"trace\.jsonl: cannot be read: No such file"):
        loaded(tmp_path, base=trace_spec())
    write_trace(tmp_path, [{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": [1]}])
    sweep = loaded(tmp_path, base=trace_spec(), axes={BLOCKS: [100, 200]})
    with pytest.raises(InputError) as caught:
        check_files(sweep, sweep.points)
    (finding,) = caught.value.findings
    assert "trace.jsonl:1: input_length" in finding


def test_all_numbers_of_a_report_can_be_weighed_but_those_of_the_host() -> None:
    keys = weighable_keys()
    assert {"gpu_hours", "p99_ttft_ms", "goodput_request_throughput_rps", "avg_accept_length"} <= set(keys)
    assert not {"wall_time_ms", "processed_tokens_per_s", "kv_eviction_policy"} & set(keys)
