"""Addresses of the actors of a run."""

from __future__ import annotations

import msgspec

from messages.envelope import Phase

CLIENT = "client"
COLLECTOR = "collector"
HANDOFF = "handoff"
SCALER = "scaler"
SAMPLER = "sampler"


class PoolNames(msgspec.Struct, frozen=True):
    """The addresses around one pool of workers.

    stage: orders the completions of pools at one time. starts: phase in which its workers start passes.
    label: name of the pool in reports.
    """

    label: str
    pool: str
    router: str
    worker_prefix: str
    stage: int
    starts: Phase

    def worker(self, worker_id: int) -> str:
        """Address of a logical worker."""
        return f"{self.worker_prefix}-{worker_id}"

    def completion_key(self, worker_id: int) -> int:
        """Orders the completion of a worker's pass among those of the same time: by stage, then worker."""
        return (self.stage << 32) + worker_id


AGGREGATED = PoolNames("agg", "pool", "router", "worker", 0, Phase.START)
PREFILL = PoolNames("prefill", "prefill-pool", "prefill-router", "prefill", 1, Phase.START_PREFILL)
DECODE = PoolNames("decode", "decode-pool", "decode-router", "decode", 2, Phase.START)


def worker_id(name: str) -> int | None:
    """The logical worker at an address, None where it is another actor's."""
    prefix, _, number = name.rpartition("-")
    known = prefix in (AGGREGATED.worker_prefix, PREFILL.worker_prefix, DECODE.worker_prefix)
    return int(number) if known and number.isdigit() else None
