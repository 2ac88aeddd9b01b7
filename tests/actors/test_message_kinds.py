"""Every kind of message has a handler in some actor, and travels as an immutable value."""

from __future__ import annotations

import typing

import msgspec
import pytest

from actors.collector import Collector
from actors.handoff import HandoffActor
from actors.handoff_worker import DecodeWorker, PrefillWorker
from actors.pool import Pool
from actors.routing.router import Router
from actors.sampler import Sampler
from actors.scaler import Scaler
from actors.worker import Worker
from actors.workload.client import Client
from messages.handoff import HandoffMessage
from messages.kv import EvictionForecast
from messages.passes import PassMessage
from messages.report import ConcludeRun
from messages.requests import ArrivalMessage, PlacementMessage
from messages.scaling import PoolMessage, ScalingMessage
from messages.telemetry import TelemetryMessage

KINDS = [
    kind
    for conversation in (
        ArrivalMessage,
        PlacementMessage,
        PassMessage,
        PoolMessage,
        ScalingMessage,
        TelemetryMessage,
        HandoffMessage,
    )
    for kind in typing.get_args(conversation)
] + [EvictionForecast, ConcludeRun]
ACTORS = (Client, Router, Worker, PrefillWorker, DecodeWorker, HandoffActor, Pool, Scaler, Sampler, Collector)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_has_a_handler(kind: type) -> None:
    assert any(kind in actor.handlers for actor in ACTORS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_is_a_frozen_struct(kind: type) -> None:
    assert issubclass(kind, msgspec.Struct)
    assert kind.__struct_config__.frozen


def test_no_actor_handles_what_is_in_no_conversation() -> None:
    assert {kind for actor in ACTORS for kind in actor.handlers} == set(KINDS)
