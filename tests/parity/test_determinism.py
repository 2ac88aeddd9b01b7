"""The same run in fresh processes gives the same bytes, whatever the hash seed and the runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.comparison import HOST_TIME


def _replay(folder: Path, name: str, runtime: str, hash_seed: str) -> tuple[str, bytes]:
    """(report.json without what depends on the host's clock, requests.jsonl) of a run of the command."""
    subprocess.run(
        [
            *(sys.executable, "-m", "actors.cli", "replay", folder / "spec.json"),
            *("--runtime", runtime, "--output-dir", folder / name, "--quiet"),
        ],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
    )
    report = json.loads((folder / name / "report.json").read_text())
    for key in HOST_TIME:
        del report[key]
    return json.dumps(report), (folder / name / "requests.jsonl").read_bytes()


@pytest.mark.parametrize("placement", [{}, {"provider": "kv_router", "config": {"router_temperature": 0.5}}])
def test_two_processes_and_two_runtimes_give_the_same_bytes(
    placement: dict[str, Any], traces: Path, tmp_path: Path
) -> None:
    with (traces / "mooncake-synthetic.jsonl").open() as lines:
        (tmp_path / "trace.jsonl").write_text("".join(islice(lines, 400)))
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 3}},
        "engine": {"rank": {"num_gpu_blocks": 2500}},
        "adapters": {"placement": placement},
        "workload": {"kind": "trace", "path": "trace.jsonl"},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    first = _replay(tmp_path, "first", "cooperative", "1")
    assert first[1].count(b"\n") == 400
    assert _replay(tmp_path, "second", "cooperative", "2") == first
    assert _replay(tmp_path, "third", "threads", "3") == first
