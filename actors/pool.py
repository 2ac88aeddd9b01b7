"""A pool of workers: announces them to the router and counts what is provisioned."""

from __future__ import annotations

from actors.names import PoolNames
from actors.runtime import SimActor, handles
from messages.envelope import Envelope, Outgoing, Reply
from messages.scaling import StartPool, TopologySettled, WorkerReady


class Pool(SimActor):
    """`workers`: scheduler ids of each worker's ranks, by worker id."""

    def __init__(self, names: PoolNames, workers: list[tuple[int, ...]]) -> None:
        super().__init__()
        self._names = names
        self._workers = workers

    @handles(StartPool)
    def start_pool(self, message: StartPool, envelope: Envelope) -> Reply:
        outbox = [
            Outgoing(self._names.router, WorkerReady(worker_id, ids)) for worker_id, ids in enumerate(self._workers)
        ]
        outbox.append(Outgoing(self._names.router, TopologySettled()))
        return Reply(outbox=outbox, live_workers=len(self._workers))
