"""Time our command against the reference, whole processes in turn on this machine.

    AISIM_SHARED=DIR AISIM_REFERENCE=PYTHON python -m tests.bench [--runs N] [--only TEXT] [--timeline]
    python -m tests.bench --growth | --step-times [--runs N]

Both make a record per request; ours writes them, the reference's synthetic entry only returns them. Prints the
medians, and the median ratio of the pairs. AISIM_SHARED names the folder with the traces, AISIM_REFERENCE a Python that
has the reference installed; with --growth neither is needed, with --step-times only the first.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from tests.bench.workloads import Workload, growth, step_times, workloads

_REFERENCE = """
import json, sys
from dynamo._core import run_mocker_synthetic_trace_replay, run_mocker_trace_replay
case = json.loads(sys.argv[1])
if case["entry"] == "synthetic":
    run_mocker_synthetic_trace_replay(**case["args"], **case["config"], capture_per_request=True)
else:
    run_mocker_trace_replay([case["trace_path"]], **case["config"], report_jsonl_path=sys.argv[2])
"""


class Usage(msgspec.Struct, frozen=True):
    """What one process took: seconds of wall time and of processor time, and its peak memory in MB."""

    wall_s: float
    cpu_s: float
    memory_mb: float


def run_process(command: list[str]) -> Usage:
    """Run a command to its end. Its own accounting comes from the operating system."""
    # With compiled modules kept, as they are where the command is installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # The reference's router would log every choice, which takes a good part of its time.
    environment["DYN_LOG"] = "error"
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begun
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return Usage(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000.0)


def measure(
    workload: Workload, runs: int, reference: str | None, folder: Path, *, timeline: bool = False
) -> tuple[list[Usage], list[Usage]]:
    """Run ours and the reference in turn, after one uncounted run of each."""
    spec = folder / "spec.json"
    spec.write_text(json.dumps(workload.spec))
    output = str(folder / "out")
    ours = [sys.executable, "-m", "actors.cli", "replay", str(spec), "--output-dir", output, "--overwrite", "--quiet"]
    if timeline:
        ours += ["--timeline", str(folder / "timeline.json")]
    rows = str(folder / "rows.jsonl")
    theirs = [reference, "-c", _REFERENCE, json.dumps(workload.case), rows] if reference is not None else None
    measured: tuple[list[Usage], list[Usage]] = ([], [])
    for number in range(runs + 1):
        pair = (run_process(ours), run_process(theirs) if theirs is not None else None)
        if number:
            measured[0].append(pair[0])
            if pair[1] is not None:
                measured[1].append(pair[1])
    return measured


def main(
    runs: Annotated[int, typer.Option(help="Counted runs of each.")] = 5,
    only: Annotated[str, typer.Option(help="Only workloads whose name contains this.")] = "",
    timeline: Annotated[bool, typer.Option("--timeline", help="Have ours write a timeline too.")] = False,
    growth_only: Annotated[bool, typer.Option("--growth", help="Time ours as requests and workers grow.")] = False,
    step_times_only: Annotated[
        bool, typer.Option("--step-times", help="Time ours with step times of aiconfigurator-core.")
    ] = False,
) -> None:
    """Print a table of wall time, processor time, peak memory and ratio per workload."""
    alone = growth_only or step_times_only
    needed = {"AISIM_SHARED"} if step_times_only else {"AISIM_SHARED", "AISIM_REFERENCE"}
    if not growth_only and not needed <= os.environ.keys():
        raise SystemExit(f"set {' and '.join(sorted(needed))}, or use --growth")
    reference = None if alone else os.environ["AISIM_REFERENCE"]
    if growth_only:
        chosen = growth()
    else:
        chosen = (step_times if step_times_only else workloads)(Path(os.environ["AISIM_SHARED"]) / "data" / "traces")
    table = Table("workload", title=f"medians of {runs} runs: ours / reference")
    for column in ("wall s", "CPU s", "memory MB", "wall ratio", "CPU ratio", "ms per request"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as name:
        for workload in chosen:
            if only in workload.name:
                measured = measure(workload, runs, reference, Path(name), timeline=timeline)
                table.add_row(workload.name, *_row(workload, *measured, Path(name)))
    Console(width=150).print(table)


def _row(workload: Workload, ours: list[Usage], theirs: list[Usage], folder: Path) -> list[str]:
    def figures(field: str, digits: int) -> str:
        sides = [statistics.median(getattr(usage, field) for usage in side) for side in (ours, theirs) if side]
        return " / ".join(f"{value:.{digits}f}" for value in sides)

    def ratio(field: str) -> str:
        pairs = [getattr(mine, field) / getattr(other, field) for mine, other in zip(ours, theirs, strict=False)]
        return f"{statistics.median(pairs):.2f}" if pairs else ""

    requests = json.loads((folder / "out" / "report.json").read_text())["num_requests"]
    per_request = statistics.median(usage.cpu_s for usage in ours) * 1000.0 / requests
    return [
        figures("wall_s", 2),
        figures("cpu_s", 2),
        figures("memory_mb", 0),
        ratio("wall_s"),
        ratio("cpu_s"),
        f"{per_request:.3f}",
    ]


if __name__ == "__main__":
    typer.run(main)
