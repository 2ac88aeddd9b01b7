"""What a run recorded, in the form that the report is computed from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from messages.handoff import Milestone
from messages.passes import Admission
from messages.requests import RequestArrived, RequestRouted, Status
from messages.spec import Sla


@dataclass(slots=True)
class RequestTimeline:
    """The life of one request, without its tokens. Times in simulated ms.

    routing, admissions: in the order in which they happened; admission_pools: where each admission did.
    milestones: times of the hand-off between pools, where there is one.
    terminal_time_ms, status: None while the request has not ended.
    reason: why it did not complete, where it ended otherwise.
    """

    arrived: RequestArrived
    routing: list[RequestRouted] = field(default_factory=list)
    admissions: list[Admission] = field(default_factory=list)
    admission_pools: list[str] = field(default_factory=list)
    milestones: dict[Milestone, float] = field(default_factory=dict)
    terminal_time_ms: float | None = None
    status: Status | None = None
    reason: str | None = None

    @property
    def counted(self) -> bool:
        """Whether the request takes part in the statistics: completed, and admitted at least once."""
        return self.status is Status.COMPLETED and bool(self.admissions)


@dataclass(frozen=True, slots=True)
class Timelines:
    """All requests of a run in release order, and when each of their tokens became visible.

    The tokens of a request are stretches of a log of pass end times, which requests of one rank share.

    times_ms: float64, the logs of all ranks one after the other; ascending within a log.
    owners, begins, ends: int64, an element per stretch, ordered by request and time. Request `owners[i]`
        emitted a token at each of `times_ms[begins[i]:ends[i]]`, of one log and at least one.
    """

    requests: list[RequestTimeline]
    times_ms: NDArray[np.float64]
    owners: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What the report needs of a run beside its requests.

    committed_prefill_tokens: tokens computed for prompts that were not yet built.
    decode_forwards, accepted_tokens: with speculation, requests times decode passes, and tokens accepted in them.
    worker_seconds: provisioned workers times simulated seconds. gpus_per_worker: GPUs of one worker.
    wall_time_ms: host time of the run.
    """

    committed_prefill_tokens: int
    worker_seconds: float
    gpus_per_worker: int
    prefill_worker_seconds: float = field(default=0.0, kw_only=True)
    prefill_gpus_per_worker: int = field(default=0, kw_only=True)
    wall_time_ms: float
    sla: Sla
    decode_forwards: int = 0
    accepted_tokens: int = 0
