"""The files: bytes, compression, options that make no sense, and what a run that fails leaves."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors import replay
from actors.cli import main
from messages.errors import InputError, ReplayError
from tests.cli.test_cli_bad_input import errors_of
from tests.scenario import cluster, two_pools
from tests.timeline.trace_format import check, load

_SPEC = two_pools(cluster((0.0, 9, 3), (1.0, 12, 9), (2.0, 12, 9), blocks=40), num_gpu_blocks=9)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(_SPEC))
    return path


def test_the_command_writes_and_names_the_file(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    bounds = ["--timeline-from", "1", "--timeline-to", "20.5"]
    assert main(["replay", str(spec), "--timeline", str(path), *bounds]) == 0
    assert f"Saved: {path}" in capsys.readouterr().out
    document = load(path)
    check(document)
    about = document["otherData"]
    assert about == {"generator": "aisim-actors", "from_ms": 1.0, "to_ms": 20.5, "end_ms": about["end_ms"]}


def test_a_compressed_file_has_the_same_content(tmp_path: Path) -> None:
    plain, packed, again = (tmp_path / name for name in ("a.json", "b.json.gz", "c.json.gz"))
    for path in (plain, packed, again):
        replay(_SPEC, timeline=path)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()


def test_both_runtimes_write_the_same_bytes(tmp_path: Path) -> None:
    replay(_SPEC, timeline=tmp_path / "a.json")
    replay(_SPEC, timeline=tmp_path / "b.json", runtime="threads")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_fresh_processes_write_the_same_bytes(spec: Path, tmp_path: Path) -> None:
    contents = []
    for seed in ("0", "4242"):
        path = tmp_path / f"{seed}.json.gz"
        command = [sys.executable, "-m", "actors.cli", "replay", str(spec), "--quiet", "--timeline", str(path)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=60)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]


def test_names_are_quoted(tmp_path: Path) -> None:
    spec = cluster((0.0, 4, 1))
    spec["requests"][0]["id"] = 'say "hi" \\ \n é'
    path = tmp_path / "run.json"
    replay(spec, timeline=path)
    document = load(path)
    check(document)
    assert 'say "hi" \\ \n é' in {event["name"] for event in document["traceEvents"]}


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--timeline", "run.txt"], "run.txt: --timeline writes .json and .json.gz; end the name with one of them"),
        (["--timeline-to", "5"], "--timeline-to: is about a timeline; give --timeline FILE too"),
        (
            ["--timeline", "x.json", "--timeline-from", "-1"],
            "--timeline-from: expected simulated ms, finite and >= 0, got -1.0",
        ),
        (
            ["--timeline", "x.json", "--timeline-to", "nan"],
            "--timeline-to: expected simulated ms, finite and >= 0, got nan",
        ),
        (
            ["--timeline", "x.json", "--timeline-to", "inf"],
            "--timeline-to: expected simulated ms, finite and >= 0, got inf",
        ),
        (
            ["--timeline", "x.json", "--timeline-from", "5", "--timeline-to", "5"],
            "--timeline-from: expected less than --timeline-to 5.0, got 5.0",
        ),
    ],
)
def test_options_that_make_no_sense(
    options: list[str], finding: str, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(spec.parent.iterdir())
    assert errors_of(capsys, "replay", str(spec), *options) == [finding]
    assert sorted(spec.parent.iterdir()) == before


def test_in_python_they_have_other_names() -> None:
    with pytest.raises(InputError, match=r"^timeline_from_ms: is about a timeline; give timeline FILE too$"):
        replay(_SPEC, timeline_from_ms=1.0)


def test_no_other_file_of_the_run_is_replaced(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = spec.read_text()
    assert errors_of(capsys, "replay", str(spec), "--timeline", str(spec)) == [
        f"{spec}: --timeline would replace an input of the replay"
    ]
    both = str(tmp_path / "both.json")
    assert errors_of(capsys, "replay", str(spec), "--timeline", both, "--trace", both) == [
        f"{both}: --timeline would replace the file of --trace"
    ]
    report = tmp_path / "out" / "report.json"
    options = ["--output-dir", str(report.parent), "--timeline", str(report)]
    assert errors_of(capsys, "replay", str(spec), *options) == [
        f"{report}: --timeline would replace a file of --output-dir"
    ]
    assert spec.read_text() == given
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spec.json"]


def test_a_file_that_cannot_be_created(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing" / "run.json"
    (finding,) = errors_of(capsys, "replay", str(spec), "--timeline", str(path))
    assert finding.startswith(f"{path}: cannot be created: ")


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_a_run_that_fails_leaves_an_earlier_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("earlier")
    stuck = cluster((0.0, 4, 3), (50.0, 12, 1), max_num_batched_tokens=8, enable_chunked_prefill=False)
    spec = {**stuck, "strict": True}
    with pytest.raises(ReplayError):
        replay(spec, timeline=path)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]
