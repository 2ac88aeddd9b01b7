"""Runs our planner inside the reference: `python reference_run.py REQUEST.json ANSWER.json`, by a Python that has both.

The request holds the trace, the keyword arguments of the replay and the configuration of the planner; the answer the
requests' records and what the planner saw and decided.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from actors.planner.configuration import load_config
from actors.planner.fleet import EngineCapabilities, capabilities
from actors.planner.policy import Planner
from messages.spec import RoleSpec


def main(request_path: str, answer_path: str) -> None:
    from dynamo._core import run_mocker_trace_replay

    request = json.loads(Path(request_path).read_text())
    config = request["config"]
    two = "prefill_engine_args" in config
    planner = Planner(
        load_config(request["planner_config"], "disagg" if two else "agg"),
        decode=_engine(config["decode_engine_args" if two else "extra_engine_args"]),
        prefill=_engine(config["prefill_engine_args"]) if two else None,
    )
    native = run_mocker_trace_replay(
        [request["trace_path"]],
        **config,
        scaling_policy=planner,
        capture_per_request=True,
        capture_planner_details=True,
    )
    answer = {
        "per_request": native.per_request,
        "summary": dict(native.summary),
        "lifecycle_operations": native.lifecycle_operations,
        "planner": msgspec.to_builtins(planner.details()),
    }
    Path(answer_path).write_text(json.dumps(answer, default=str))


def _engine(arguments: dict[str, Any]) -> EngineCapabilities:
    rank = {name: value for name, value in arguments["engine"].items() if name != "worker_type"}
    return capabilities(msgspec.convert({"rank": rank}, RoleSpec))


if __name__ == "__main__":
    main(*sys.argv[1:])
