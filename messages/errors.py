"""Errors a user can meet. Each message is one line that says where, what was found and what to do."""

from __future__ import annotations


class InputError(Exception):
    """Bad input: the spec, a file it names, or the command line. Carries every finding, a line each."""

    def __init__(self, *findings: str) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


LIVELOCK = (
    "replay invariant violated: offline replay detected an effect-free zero-duration pass "
    "with {} in-flight requests remaining"
)
"""Text of the error of a worker that attempts passes for ever, with the number of its requests."""


class PolicyError(Exception):
    """A scaling policy of the caller's own raised `error`, which is passed on as it is."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class ReplayError(Exception):
    """The run failed: a dead end, a livelock, or a fault inside an actor."""
