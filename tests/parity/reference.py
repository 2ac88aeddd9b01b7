"""The reference as a black box, and its cases as specs of ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_ANSWER_ALL = """
import json, sys
sys.path.insert(0, sys.argv[1])
import fuzz
fuzz.FIELDS = (*fuzz.FIELDS, "routing_history", "prefill_route_overlap_tokens", "decode_route_overlap_tokens")
for line in sys.stdin:
    print(json.dumps(fuzz.answer(json.loads(line), float(sys.argv[2]))), flush=True)
"""


_SCALE_ALL = """
import json, multiprocessing, os, sys
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[3])

def child(case, pipe):
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        import dynamo._core as core
        from run_reference import run_case
        from tests.scaling.policies import Scripted
        policy, natives, replay = Scripted(case["scaling"]), [], core.run_mocker_trace_replay

        def scaled(*args, **kwargs):
            natives.append(replay(*args, **kwargs, scaling_policy=policy, capture_planner_details=True))
            return natives[0]

        core.run_mocker_trace_replay = scaled
        answer = run_case(case)
        seen = {"operations": natives[0].lifecycle_operations, "snapshots": policy.snapshots}
        pipe.send({**answer, **seen, "telemetry": natives[0].telemetry})
    except BaseException as error:
        pipe.send({"error": str(error)})

def answer(case, seconds):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=child, args=(case, theirs))
    process.start()
    result = ours.recv() if ours.poll(seconds) else {"error": "no answer in time"}
    process.kill()
    process.join()
    return result

for line in sys.stdin:
    print(json.dumps(answer(json.loads(line), float(sys.argv[2]))), flush=True)
"""


class Reference:
    """`python` runs it; `tools` is the folder of scripts that come with it."""

    def __init__(self, python: Path, tools: Path) -> None:
        self.python = python
        self._tools = tools

    def answers(self, cases: Sequence[dict[str, Any]], seconds: float = 10.0) -> list[dict[str, Any]]:
        """Its answer per case: {"per_request", "summary"}, or {"error"} where it fails or takes too long."""
        return self._ask(_ANSWER_ALL, cases, seconds)

    def _ask(self, script: str, cases: Sequence[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
        # It goes on for ever on some cases: two processes wait for the end of the time limit together.
        with ThreadPoolExecutor(2) as pool:
            halves = pool.map(lambda part: self._ask_process(script, cases[part::2], seconds), range(2))
        answers: list[dict[str, Any]] = [{}] * len(cases)
        for part, half in enumerate(halves):
            answers[part::2] = half
        return answers

    def _ask_process(self, script: str, cases: Sequence[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
        project = Path(__file__).parent.parent.parent
        finished = subprocess.run(
            [self.python, "-c", script, self._tools, str(seconds), project],
            input="".join(json.dumps(case) + "\n" for case in cases),
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in finished.stdout.splitlines()]

    def scaled_answers(self, cases: Sequence[dict[str, Any]], seconds: float = 10.0) -> list[dict[str, Any]]:
        """As `answers`, with the ticks `scaling` of each case decided by a script.

        Each also has "operations" (the life of the workers), "snapshots" (what the policy was shown), and "telemetry"
        (the samples, where the case asks for them).
        """
        return self._ask(_SCALE_ALL, cases, seconds)

    def answer(self, case: dict[str, Any], seconds: float = 120.0) -> dict[str, Any]:
        """Its answer to one case."""
        return self.answers([case], seconds)[0]


def as_spec(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A case as our spec, lenient, its trace written into `folder`."""
    from to_spec import to_spec

    spec, lines = to_spec(case, str(folder / "trace.jsonl"))
    if lines is not None:
        (folder / "trace.jsonl").write_text("\n".join(lines) + "\n")
    return {**spec, "strict": False}
