"""The command `compare`: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main
from tests.compare.conftest import Replayed, request

Printed = pytest.CaptureFixture[str]


def compare(capsys: Printed, *arguments: object) -> dict[str, Any]:
    """The printed comparison; nothing may be on standard error."""
    assert main(["compare", *map(str, arguments), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    document: dict[str, Any] = json.loads(printed.out)
    return document


def warnings(capsys: Printed, *arguments: object) -> list[str]:
    assert main(["compare", *map(str, arguments), "--json"]) == 0
    printed = capsys.readouterr()
    lines = [line.removeprefix("warning: ") for line in printed.err.splitlines()]
    assert json.loads(printed.out)["warnings"] == lines
    return lines


def metric(document: dict[str, Any], key: str) -> dict[str, Any]:
    (found,) = [entry for entry in document["metrics"] if entry["key"] == key]
    return {name: value for name, value in found.items() if name != "key"}


def slower(replayed: Replayed, name: str = "slow", **parts: Any) -> Path:
    """The same two requests where a pass of prefill takes 20 ms, not 10."""
    return replayed(name, "--set", "engine.rank.timing_model.prefill_ms=20", **parts)


def test_a_change_of_the_engine_as_json(replayed: Replayed, capsys: Printed) -> None:
    base, slow = replayed("base"), slower(replayed)
    document = compare(capsys, base, slow)
    assert document["runs"] == [
        {
            "label": label,
            "path": str(path),
            "num_requests": 2,
            "completed_requests": 2,
            "has_spec": True,
            "has_records": True,
        }
        for label, path in (("A", base), ("B", slow))
    ]
    # The second request arrives at 5 and is built with the second pass, in which the first one decodes: until 21 or 41.
    assert metric(document, "mean_ttft_ms") == {
        "better": "lower",
        "headline": True,
        "values": [13.0, 28.0],
        "changes": [{"run": "B", "absolute": 15.0, "percent": 15.0 / 13.0 * 100.0, "verdict": "worse"}],
    }
    assert document["spec_differences"] == [
        {"path": "engine.rank.timing_model.prefill_ms", "values": [10.0, 20.0], "missing": []}
    ]
    (join,) = document["joins"]
    assert {key: join[key] for key in ("run", "matched", "only_first", "only_other", "other_arrivals")} == {
        "run": "B",
        "matched": 2,
        "only_first": 0,
        "only_other": 0,
        "other_arrivals": 0,
    }
    ttft = join["differences"][0]
    assert (ttft["key"], ttft["mean"], ttft["worse"], ttft["equal"]) == ("ttft_ms", 15.0, 2, 0)
    assert [(entry["request_id"], entry["difference"]) for entry in ttft["most_changed"]] == [("b", 20.0), ("a", 10.0)]
    assert document["warnings"] == document["bounds"] == []


def test_a_change_of_the_engine_for_a_reader(replayed: Replayed, capsys: Printed) -> None:
    base, slow = replayed("base"), slower(replayed)
    assert main(["compare", str(base), str(slow), "--metric", "mean_ttft_ms", "--metric", "num_requests"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = [re.sub(r"\s+", " ", line) for line in printed.out.splitlines()]
    assert lines[:2] == [f"A: {base} (2 of 2 requests completed)", f"B: {slow} (2 of 2 requests completed)"]
    assert "┃ Metric ┃ Better ┃ A ┃ B ┃ B - A ┃ % of A ┃" in lines
    assert "│ mean_ttft_ms │ lower │ 13.00 │ 28.00 │ +15.00 │ +115.38 % worse │" in lines
    assert "│ num_requests │ │ 2 │ 2 │ +0 │ equal │" in lines
    assert " engine.rank.timing_model.prefill_ms: A 10.0; B 20.0" in lines
    assert "Requests of B and A: 2 in both, 0 only in A, 0 only in B, 0 ended differently" in lines
    assert "│ worse │ 2 (100.0 %) │ 1 (50.0 %) │ 2 (100.0 %) │" in lines
    assert "Most changed ttft_ms: b +20.00; a +10.00" in lines


def test_the_same_directory_twice(replayed: Replayed, capsys: Printed) -> None:
    base = replayed("base")
    (base.parent / "link").symlink_to(base)
    assert main(["compare", str(base), str(base.parent / "link")]) == 0
    printed = capsys.readouterr()
    assert printed.err == "warning: B and A are the same directory\n"
    assert "Spec: equal in A, B" in printed.out
    assert "Their latencies are equal." in printed.out
    assert "worse" not in printed.out.replace("better or worse", "")


def test_two_runs_of_one_spec_are_equal_apart_from_the_host(replayed: Replayed, capsys: Printed) -> None:
    document = compare(capsys, replayed("one"), replayed("two"))
    host = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
    assert {entry["changes"][0]["verdict"] for entry in document["metrics"] if entry["key"] not in host} <= {
        "equal",
        None,
    }
    assert document["spec_differences"] == []


def test_other_workloads_are_told(replayed: Replayed, capsys: Printed) -> None:
    base = replayed("base")
    other = replayed("other", requests=[request("a", 1.0), request("b", 5.0, tokens=50), request("c", 9.0)])
    assert warnings(capsys, base, other) == [
        "B and A have different workloads: their specs differ in requests",
        "B and A have different requests: 1 of 2 have other lengths, 1 of 2 arrive at other times, 1 only in B",
    ]


def test_arrivals_of_a_closed_loop_are_no_other_workload(replayed: Replayed, capsys: Printed) -> None:
    rows = [request(name) for name in "abcd"]
    base = replayed("base", requests=rows, max_in_flight=1)
    slow = slower(replayed, requests=rows, max_in_flight=1)
    assert warnings(capsys, base, slow) == []


def test_incomplete_runs_are_told(replayed: Replayed, capsys: Printed) -> None:
    base = replayed("base")
    tight = replayed("tight", "--set", "engine.rank.num_gpu_blocks=4", requests=[request("a"), request("b", 5.0, 999)])
    short = replayed("short", "--set", "max_sim_time_ms=22.5")
    assert warnings(capsys, base, tight)[0] == (
        f"B ({tight}) is not complete: 1 of 2 requests completed, and its figures are of those; "
        "1 rejected (999 tokens need 16 KV blocks, the cache has 4)"
    )
    assert warnings(capsys, base, short) == [
        f"B ({short}) is not complete: 1 of 2 requests completed, and its figures are of those; 1 unfinished",
        "B and A have different workloads: their specs differ in max_sim_time_ms",
        "B and A have different requests: 1 only in A",
    ]


def test_goodput_of_another_sla_is_told_and_not_judged(replayed: Replayed, capsys: Printed) -> None:
    base = replayed("base", sla={"ttft_ms": 12.0})
    other = replayed("other", sla={"ttft_ms": 100.0})
    assert warnings(capsys, base, other) == ["B and A have different SLAs, so that their goodput cannot be compared"]
    assert main(["compare", str(base), str(other), "--quiet", "--json"]) == 0
    change = metric(json.loads(capsys.readouterr().out), "goodput_completed_requests")["changes"][0]
    assert change == {"run": "B", "absolute": 1, "percent": 100.0, "verdict": None}


def test_a_report_alone_has_less_to_say(replayed: Replayed, tmp_path: Path, capsys: Printed) -> None:
    base = replayed("base")
    alone = shutil.copy(base / "report.json", tmp_path / "baseline.json")
    assert main(["compare", str(alone), str(base)]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"warning: A ({alone}) has no record of its spec and requests to compare\n"
    assert "Spec: fewer than two runs have one to compare" in printed.out
    assert "Requests of" not in printed.out
    three = replayed("three", requests=[request(name) for name in "abc"])
    assert warnings(capsys, alone, three)[1] == "B and A have different workloads: 3 and 2 requests"


def test_runs_without_records(replayed: Replayed, capsys: Printed) -> None:
    base, lean = replayed("base"), replayed("lean", record_per_request=False)
    assert warnings(capsys, base, lean) == [f"B ({lean}) has no record of its requests to compare"]


def test_bounds_decide_the_exit_code(replayed: Replayed, capsys: Printed) -> None:
    base, slow = replayed("base"), slower(replayed)
    bounds = ["--fail-if", "mean_ttft_ms>+200%", "--fail-if", "completed_requests<-0"]
    assert main(["compare", str(base), str(slow), "--quiet", *bounds]) == 0
    assert capsys.readouterr() == ("", "")
    bounds += ["--fail-if", "mean_ttft_ms>+5%", "--fail-if", "max_ttft_ms>20"]
    assert main(["compare", str(base), str(slow), str(base), *bounds]) == 1
    printed = capsys.readouterr()
    assert "Bounds: 6 of 8 checks kept" in printed.out
    assert [line for line in printed.err.splitlines() if line.startswith("error")] == [
        "error: --fail-if mean_ttft_ms>+5%: mean_ttft_ms is 28 in B and 13 in A: +115.38 %",
        "error: --fail-if max_ttft_ms>20: max_ttft_ms is 36 in B",
    ]


def test_files(replayed: Replayed, tmp_path: Path, capsys: Printed) -> None:
    runs = [str(replayed("base")), str(slower(replayed))]
    out = tmp_path / "out"
    assert main(["compare", *runs, "--output-dir", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-2:] == [f"Saved: {out / 'comparison.json'}", f"Saved: {out / 'comparison.html'}"]
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(written) == ["comparison.html", "comparison.json"]
    assert main(["compare", *runs, "--json"]) == 0
    assert capsys.readouterr().out.encode() == written["comparison.json"]
    assert main(["compare", *runs, "--output-dir", str(out)]) == 2
    assert "pass --overwrite to replace comparison.json, comparison.html" in capsys.readouterr().err
    assert main(["compare", *runs, "--output-dir", str(out), "--overwrite", "--quiet"]) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == written


def test_an_input_is_never_replaced(replayed: Replayed, tmp_path: Path, capsys: Printed) -> None:
    base = replayed("base")
    given = shutil.copy(base / "report.json", tmp_path / "comparison.json")
    assert main(["compare", str(base), str(given), "--output-dir", str(tmp_path), "--overwrite"]) == 2
    assert capsys.readouterr().err == f"error: {given}: --output-dir would replace an input of the comparison\n"


def test_a_failing_page_leaves_nothing(
    replayed: Replayed, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [str(replayed("base")), str(slower(replayed))]

    def fail(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("actors.comparison.page.comparison_page", fail)
    assert main(["compare", *runs, "--output-dir", str(tmp_path / "out")]) == 130
    assert capsys.readouterr() == ("", "error: interrupted\n")
    assert not (tmp_path / "out").exists()


def test_all_faults_of_the_input_are_told_at_once(replayed: Replayed, tmp_path: Path, capsys: Printed) -> None:
    base = replayed("base")
    broken = shutil.copytree(base, tmp_path / "broken")
    with (broken / "requests.jsonl").open("a") as file:
        file.write('{"request_id":\n')
    (tmp_path / "empty").mkdir()
    runs = [base, broken, tmp_path / "empty", tmp_path / "none", tmp_path / "base.json"]
    assert main(["compare", *map(str, runs)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    begins = [
        f"error: {broken / 'requests.jsonl'}:3: ",
        f"error: {tmp_path / 'empty'}: holds no report.json; ",
        f"error: {tmp_path / 'none'}: no such directory; ",
        f"error: {tmp_path / 'base.json'}: is not the report of a replay, ",
    ]
    lines = printed.err.splitlines()
    assert len(lines) == len(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True))


@pytest.mark.parametrize("count", [1, 9])
def test_number_of_runs(count: int, replayed: Replayed, capsys: Printed) -> None:
    base = replayed("base")
    assert main(["compare", *[str(base)] * count]) == 2
    assert capsys.readouterr().err == (
        f"error: compare takes 2 to 8 runs, each an output directory of replay; got {count}\n"
    )


def test_unknown_names(replayed: Replayed, capsys: Printed) -> None:
    base = str(replayed("base"))
    assert main(["compare", base, base, "--fail-if", "p99_tft_ms>+5%"]) == 2
    assert capsys.readouterr().err.endswith("did you mean p99_ttft_ms?\n")
    assert main(["compare", base, base, "--metric", "gpu_hour"]) == 2
    assert capsys.readouterr().err.endswith("did you mean gpu_hours?\n")
