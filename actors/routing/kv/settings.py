"""From the configuration of a KV router to what the routers of the pools go by."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml

from actors.names import AGGREGATED, DECODE, PREFILL, PoolNames
from actors.routing.kv.policy import KvRouterOptions
from actors.routing.kv.selection import CostModel
from actors.spec.faults import find_faults, impossible_values
from messages.errors import InputError
from messages.kv_router import KvRouterConfig
from messages.router_policy import CacheBucket, PolicyClass, PolicyProfile, RouterPolicy
from messages.spec import RankSpec


def load_router_config(config: KvRouterConfig, base_dir: Path) -> KvRouterConfig:
    """Return a configuration with its policy read, if that is a path, and the settings of the policy applied.

    Raises InputError where the file cannot be used, or its settings contradict the rest.
    """
    policy = config.router_policy_config
    label = "adapters.placement.config.router_policy_config"
    if isinstance(policy, str):
        label = str(base_dir / policy)
        policy = _read_policy(base_dir / policy)
    if policy is None:
        return config
    fields = {name: getattr(config, name) for name in config.__struct_fields__}
    fields["router_policy_config"] = policy
    if policy.router is not None:
        fields |= policy.router.given()
    try:
        return KvRouterConfig(**fields)
    except ValueError as error:
        raise InputError(f"{label}: router: {error}") from None


def router_options(config: KvRouterConfig, rank: RankSpec, names: PoolNames) -> KvRouterOptions:
    """What the router of a pool of `rank` goes by; of two pools each is given its own variant of the configuration.

    config: with its policy loaded.
    """
    decode = names is DECODE
    policy = config.router_policy_config
    assert not isinstance(policy, str)
    profile = policy.profile(config.model_name) if policy is not None else None
    return KvRouterOptions(
        model=CostModel(
            block_size=rank.tokens_per_block,
            overlap_credit=0.0 if decode else config.overlap_credit,
            credit_decay=config.overlap_score_credit_decay,
            prefill_scale=config.prefill_scale,
            request_weight=config.decode_active_request_weight,
            track_prefill=config.router_track_prefill_tokens and not decode,
            track_blocks=config.router_track_active_blocks and names is not PREFILL,
        ),
        shares_blocks=config.router_assume_kv_reuse and not decode,
        profile=profile or _single_class(config, names),
        batch_tokens=rank.max_num_batched_tokens or sys.maxsize,
        temperature=config.router_temperature,
        consumes_kv_events=not decode,
        lag_ms=config.kv_event_lag_ms or 0.0,
        seed=f"{config.router_seed}/{names.label}",
    )


def _single_class(config: KvRouterConfig, names: PoolNames) -> PolicyProfile:
    """The profile of a configuration without one: a class for all requests."""
    own: dict[PoolNames, Any] = {
        AGGREGATED: None,
        PREFILL: config.prefill_queue_policy,
        DECODE: config.decode_queue_policy,
    }
    every: Any = own[names] or config.router_queue_policy
    return PolicyProfile(
        default_policy_family="default",
        uncached_isl_buckets=[CacheBucket(min_tokens=0, bucket="all")],
        policy_classes=[
            PolicyClass(
                name="default",
                policy_family="default",
                cache_bucket="all",
                quantum=1,
                queue_policy=every,
                prefill_busy_threshold_frac=config.router_queue_threshold,
            )
        ],
    )


def _read_policy(path: Path) -> RouterPolicy:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # no UTF-8 text, or a path that no file system can hold
        raise InputError(f"{path}: cannot be read as text: {error}") from None
    document = _parse(text, path)
    findings = impossible_values(document)
    if not findings:
        try:
            return msgspec.convert(document, RouterPolicy)
        except msgspec.ValidationError as error:
            findings = find_faults(document, msgspec.inspect.type_info(RouterPolicy)) or [str(error)]
    raise InputError(*(f"{path}: {finding}" for finding in findings))


def _parse(text: str, path: Path) -> object:
    """Read YAML, or JSON, whose tabs YAML would refuse."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{path}:{mark.line + 1}: column {mark.column + 1}" if mark is not None else str(path)
        raise InputError(f"{place}: YAML is malformed: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: YAML cannot be read: {' '.join(str(error).split())}") from None
