"""Addresses of the actors of a run."""

from __future__ import annotations

CLIENT = "client"
ROUTER = "router"
POOL = "pool"
COLLECTOR = "collector"
_WORKER = "worker-"


def worker_name(worker_id: int) -> str:
    """Address of a logical worker."""
    return f"{_WORKER}{worker_id}"


def worker_id(name: str) -> int | None:
    """The logical worker at an address, None where it is another actor's."""
    return int(name.removeprefix(_WORKER)) if name.startswith(_WORKER) else None
