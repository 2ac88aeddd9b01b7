"""Make the recorded cases beside this file from the reference's examples.

    AISIM_SHARED=DIR python tests/recorded/record.py

Writes a directory per example: spec.json, trace.jsonl (and the profile where there is one) and expected.json with the
rows, summary or error text that the reference returned.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
EXAMPLES = (
    *(f"engine-{number:02d}" for number in (*range(1, 29), *range(30, 34))),
    *(f"sglang-{number:02d}" for number in range(1, 33)),
    *(f"workload-{number:02d}" for number in (*range(1, 22), 27, 28)),
    "router-01-event-visibility",
    "router-02-overlap-weight-0",
    "router-02-overlap-weight-0_5",
    "router-02-overlap-weight-1",
    "router-02-overlap-weight-2",
    "router-03-overlap-credit-0_5",
    "router-03-overlap-credit-1_5",
    "router-04-temperature-0",
    "router-04-temperature-0_001",
    "router-05-decode-request-weight",
    "router-06-no-active-blocks",
    "router-07-no-kv-reuse",
    "router-08-kv-reuse",
    "router-09-credit-decay-0",
    "router-09-credit-decay-4",
    "router-10-queue-fcfs",
    "router-10-queue-lcfs",
    "router-10-queue-same-time-lcfs",
    "router-10-queue-same-time-wspt",
    "router-10-queue-wspt",
    "router-11-priority-wspt",
    "router-11-priority",
    "router-12-same-pass-drain",
    "router-13-queue-stale-overlap",
    "router-14-threshold-boundary",
    "router-15-queue-two-workers",
    "router-16-queue-concurrency",
    "router-17-output-one",
    "router-18-event-lag-10",
    "router-18-event-lag-two-workers-none",
    "router-18-event-lag-two-workers",
    "router-19-eviction-two-workers",
    "router-19-eviction",
    "router-19-no-eviction-two-workers",
    "router-20-chunked-prefill",
    "router-21-attention-dp-queue",
    "router-21-attention-dp",
    "router-23-backend-sglang",
    "router-23-backend-trtllm",
    "router-24-disagg-sglang",
    "router-24-disagg-trtllm",
    "router-24-disagg-vllm",
    "router-25-disagg-queue",
    "router-26-disagg-transfer",
    "router-27-disagg-lag",
    "router-28-policy-classes",
    "router-29-block-sizes",
    "router-30-sglang-block-1",
    "router-31-soak-eviction-queue",
    "router-32-soak-wspt",
    "router-33-soak-disagg",
    "runtime-agg-2w-simultaneous",
    "runtime-agg-3w-polynomial",
    "runtime-agg-arrival-at-completion",
    "runtime-agg-dp2-2w",
    "runtime-agg-dp2-barrier-polynomial",
    "runtime-agg-dp2-prefill-interval",
    "runtime-agg-livelock-error",
    "runtime-agg-max-sim-time",
    "runtime-agg-rejected-concurrency",
    "runtime-conc2-single-turn-1p1d",
    "runtime-disagg-1p1d-bandwidth-polynomial",
    "runtime-disagg-1p1d-no-bandwidth",
    "runtime-disagg-2p2d-bandwidth",
    "runtime-disagg-2p2d-completion-order",
    "runtime-disagg-2p2d-no-bandwidth",
    "runtime-disagg-arrival-at-completion",
    "runtime-disagg-decode-max-seqs-gate",
    "runtime-disagg-destination-full-sglang-8",
    "runtime-disagg-destination-full-trtllm-8",
    "runtime-disagg-destination-full-vllm-6",
    "runtime-disagg-destination-full-vllm-6-bandwidth",
    "runtime-disagg-destination-full-vllm-8",
    "runtime-disagg-destination-full-vllm-9",
    "runtime-disagg-destination-missing",
    "runtime-disagg-destination-missing-sglang",
    "runtime-disagg-destination-missing-trtllm",
    "runtime-disagg-destination-never-fits",
    "runtime-disagg-dp2-dp3-2p2d",
    "runtime-disagg-one-reservation-per-pass-sglang",
    "runtime-disagg-one-reservation-per-pass-vllm",
    "runtime-disagg-sglang-transfer-order",
    "runtime-disagg-source-hold-blocks-prefill",
    "runtime-conc2-single-turn",
    "runtime-conc3-single-turn-2w",
    "runtime-sessions-conc2",
    "runtime-sessions-conc2-1p1d",
    "runtime-sessions-failed-destination",
    "runtime-sessions-trace",
)


def main() -> None:
    shared = Path(os.environ["AISIM_SHARED"])
    sys.path.insert(0, str(shared / "reference"))
    from run_reference import load_case
    from to_spec import to_spec

    shutil.rmtree(CASES, ignore_errors=True)
    for prefix in EXAMPLES:
        folder = shared / "spec" / "examples"
        path = folder / f"{prefix}.json"
        if not path.exists():
            (path,) = folder.glob(f"{prefix}-*.json")
        case, expected = load_case(path)
        # Telemetry is recorded in the same file as the run, but is no part of these cases.
        for key in ("capture_telemetry", "telemetry_sample_interval_ms"):
            case["config"].pop(key, None)
        spec, lines = to_spec(case)
        target = CASES / path.stem
        target.mkdir(parents=True)
        profile = path.with_suffix(".npz")
        if profile.exists():
            shutil.copyfile(profile, target / profile.name)
            spec["engine"]["rank"]["timing_model"]["config"]["path"] = profile.name
        _write(target / "spec.json", spec)
        if lines is not None:
            (target / "trace.jsonl").write_text("\n".join(lines) + "\n")
        document = json.loads(path.read_text())
        _write(target / "expected.json", _expected(document, expected))


def _expected(document: dict[str, Any], expected: dict[str, Any] | None) -> dict[str, Any]:
    if "expected_error" in document:
        # Some are recorded as the representation of the exception.
        return {"error": document["expected_error"].removeprefix("Exception('").removesuffix("')")}
    assert expected is not None
    if "error" in expected:
        return {"error": expected["error"]["message"]}
    summary = expected.get("summary") or document.get("expected_summary")
    return {"rows": [_row(row) for row in expected["per_request"]], "summary": summary}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A recorded row with the names of our records."""
    row = {key: value for key, value in row.items() if key != "trace_index"}
    if "admissions" in row:
        admissions = row.pop("admissions")
        # With two pools each entry begins with the name of its pool.
        names = ("pool", "at_ms", "reused_input_tokens")
        row["admission_history"] = [dict(zip(names[-len(entry) :], entry, strict=True)) for entry in admissions]
    if "dp_rank" in row:
        row["routing_history"] = [{"dp_rank": row.pop("dp_rank")}]
    if "routing" in row:
        row["routing_history"] = row.pop("routing")
    return row


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
