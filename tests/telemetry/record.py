"""Make the recorded runs beside this file, with samples of telemetry, from the reference's examples.

    AISIM_SHARED=DIR python -m tests.telemetry.record

Writes a file per run: spec, trace, and the samples that the reference took.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

RUNS = Path(__file__).parent / "recorded"
EXAMPLES = ("runtime-telemetry-agg", "runtime-telemetry-disagg", "runtime-agg-max-sim-time")


def main() -> None:
    shared = Path(os.environ["AISIM_SHARED"])
    sys.path.insert(0, str(shared / "reference"))
    from run_reference import load_case
    from to_spec import to_spec

    RUNS.mkdir(exist_ok=True)
    for name in EXAMPLES:
        path = shared / "spec" / "examples" / f"{name}.json"
        spec, lines = to_spec(load_case(path)[0])
        samples = json.loads(path.read_text())["expected"]["telemetry"]["samples"]
        run = {"spec": spec, "trace": [json.loads(line) for line in lines or ()], "samples": samples}
        (RUNS / f"{name}.json").write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
