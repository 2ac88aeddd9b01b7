"""The reference as a black box, and its cases as specs of ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
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


class Reference:
    """`python` runs it; `tools` is the folder of scripts that come with it."""

    def __init__(self, python: Path, tools: Path) -> None:
        self._python = python
        self._tools = tools

    def answers(self, cases: Sequence[dict[str, Any]], seconds: float = 10.0) -> list[dict[str, Any]]:
        """Its answer per case: {"per_request", "summary"}, or {"error"} where it fails or takes too long."""
        finished = subprocess.run(
            [self._python, "-c", _ANSWER_ALL, self._tools, str(seconds)],
            input="".join(json.dumps(case) + "\n" for case in cases),
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in finished.stdout.splitlines()]

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
