"""Our planner as the scaling policy of the reference."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from tests.parity.reference import Reference

SCRIPT = Path(__file__).parent / "reference_run.py"
ROOT = SCRIPT.parents[2]


def run_in_reference(
    reference: Reference, request: dict[str, Any], folder: Path, *, seconds: float = 120.0
) -> dict[str, Any]:
    """Run a request of `reference_run.py` in a process of its own; raises if it takes longer than `seconds`.

    request: `trace_path`, `config` (keyword arguments of the replay), `planner_config`.
    Returns `per_request`, `summary`, `lifecycle_operations` and `planner` (its details).
    """
    (folder / "request.json").write_text(json.dumps(request))
    packages = Path(msgspec.__file__).parents[1]
    subprocess.run(
        [reference.python, SCRIPT, folder / "request.json", folder / "answer.json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, packages)))},
        stdout=subprocess.DEVNULL,
        timeout=seconds,
        check=True,
    )
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answer
