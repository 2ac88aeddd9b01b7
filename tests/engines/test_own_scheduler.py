"""README's section "Adding a scheduler", followed: a toy scheduler that serves one request at a time."""

from __future__ import annotations

from collections import deque

import pytest

from actors import replay
from engines import schedulers
from engines.engine import EngineOptions, RankOutputs, RankPass
from engines.timing.durations import Durations
from messages.passes import Admission, Terminal
from messages.requests import Request, Status
from messages.spec import RankSpec
from tests.scenario import cluster


class OneAtATime:
    """Prefills the request at the front of the queue in one pass, then decodes it to its end, a pass per token."""

    def __init__(self, rank: RankSpec, durations: Durations, options: EngineOptions) -> None:
        self._durations = durations
        self._dp_rank = options.dp_rank
        self._queue: deque[Request] = deque()
        self._generated = 0
        self._outputs = RankOutputs()

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def submit(self, request: Request) -> None:
        self._queue.append(request)

    def begin_pass(self, now_ms: float, wave: int) -> RankPass:
        request = self._queue[0]
        admissions: tuple[Admission, ...] = ()
        first: tuple[int, ...] = ()
        if not self._generated:
            duration_ms = self._durations.prefill_ms(1, request.input_tokens, 0)
            admissions, first = (Admission(request.ordinal, now_ms, 0),), (request.ordinal,)
        else:
            duration_ms = self._durations.decode_ms(1, request.input_tokens + self._generated)
        self._generated += 1
        terminals: tuple[Terminal, ...] = ()
        if self._generated >= request.output_tokens:
            terminals = (Terminal(request.ordinal, Status.COMPLETED),)
            self._queue.popleft()
            self._generated = 0
        self._outputs = RankOutputs(
            self._dp_rank, resumed=first, first_tokens=first, terminals=terminals, admissions=admissions
        )
        return RankPass(now_ms + duration_ms)

    def group_formed(self, *, prefilled: bool, worked: bool) -> None:
        pass

    def end_pass(self, passes: int) -> RankOutputs:
        return self._outputs


def test_a_scheduler_of_ones_own_runs_once_it_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schedulers.SCHEDULERS, "vllm", OneAtATime)
    report = replay(cluster((0.0, 8, 3), (1.0, 8, 2), (1.0, 8, 1), workers=2))
    assert report.requests is not None
    times = [(record.first_admit_ms, record.first_token_ms, record.terminal_time_ms) for record in report.requests]
    assert times == [(0.0, 10.0, 12.0), (1.0, 11.0, 12.0), (12.0, 22.0, 22.0)]
