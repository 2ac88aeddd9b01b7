"""Which requests emitted tokens in a pass, from messages that name only changes."""

from __future__ import annotations

from messages.passes import PassOutputs


class EmittingRequests:
    """Follows the pass outputs of all ranks in order."""

    def __init__(self) -> None:
        self._emitting: dict[int, dict[int, None]] = {}

    def update(self, outputs: PassOutputs) -> tuple[int, ...]:
        """The requests that emitted one token at the end of each pass of `outputs`, in order of their beginning."""
        if outputs.bursts:
            return tuple(ordinal for ordinal, _ in outputs.bursts)
        emitting = self._emitting.setdefault(outputs.scheduler_id, {})
        for ordinal in outputs.paused:
            del emitting[ordinal]
        emitting.update(dict.fromkeys(outputs.resumed))
        emitted = tuple(emitting)
        for terminal in outputs.terminals:
            emitting.pop(terminal.ordinal, None)
        return emitted
