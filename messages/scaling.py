"""Life of a worker pool: which workers exist and may take requests."""

from __future__ import annotations

import msgspec


class StartPool(msgspec.Struct, frozen=True, gc=False):
    """The run begins: announce the workers that exist from the start."""


class WorkerReady(msgspec.Struct, frozen=True, gc=False):
    """A worker may take requests. `scheduler_ids` are those of its ranks, in rank order."""

    worker_id: int
    scheduler_ids: tuple[int, ...]


class WorkerDraining(msgspec.Struct, frozen=True, gc=False):
    """A worker keeps the requests it has and takes no more."""

    worker_id: int


class WorkerRemoved(msgspec.Struct, frozen=True, gc=False):
    """A worker is gone."""

    worker_id: int


class TopologySettled(msgspec.Struct, frozen=True, gc=False):
    """All changes of one decision about the pool have been announced."""


PoolMessage = StartPool | WorkerReady | WorkerDraining | WorkerRemoved | TopologySettled
