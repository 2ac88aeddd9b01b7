"""A router policy: queue classes of requests, per model or for all, and settings that override the configuration."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from messages.fields import Count, Strict


class RouterSettings(Strict, frozen=True):
    """Fields of the router's configuration that the policy overrides, where it gives them."""

    host_cache_hit_weight: float | UnsetType = UNSET
    disk_cache_hit_weight: float | UnsetType = UNSET
    use_kv_events: bool | UnsetType = UNSET
    router_replica_sync: bool | UnsetType = UNSET
    router_track_active_blocks: bool | UnsetType = UNSET
    router_track_output_blocks: bool | UnsetType = UNSET
    router_assume_kv_reuse: bool | UnsetType = UNSET
    router_track_prefill_tokens: bool | UnsetType = UNSET
    router_tracking_hash: str | UnsetType = UNSET
    router_tracking_key_file: str | UnsetType = UNSET
    router_tracking_key_id: str | UnsetType = UNSET
    router_prefill_load_model: str | UnsetType = UNSET
    router_ttl_secs: float | UnsetType = UNSET
    router_approximate_cache_policy: str | UnsetType = UNSET
    router_event_threads: int | UnsetType = UNSET
    use_remote_indexer: bool | UnsetType = UNSET
    serve_indexer: bool | UnsetType = UNSET
    enable_session_prefix_index: bool | UnsetType = UNSET
    shared_cache_type: str | UnsetType = UNSET
    router_predicted_ttl_secs: float | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        """The fields that have a value."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}


class CacheBucket(Strict, frozen=True):
    """A name for prompts with at least so many tokens to compute."""

    min_tokens: Count
    bucket: str


class PolicyClass(Strict, frozen=True):
    """A queue with its own order, thresholds and limits, and a share of the releases.

    policy_family, cache_bucket: the requests it is for; without them, those that ask for the class by its name.
    quantum: tokens of credit per turn. prefill_busy_threshold(_frac): prompt tokens, or share of
        `max_num_batched_tokens`, above which a rank is busy for this class; without either nobody waits.
    *_limit_per_worker: the most that may wait per rank; beyond that the run fails.
    """

    name: str
    quantum: Count
    policy_family: str | None = None
    cache_bucket: str | None = None
    queue_policy: Literal["fcfs", "lcfs", "wspt"] = "fcfs"
    prefill_busy_threshold: Count | None = None
    prefill_busy_threshold_frac: float | None = None
    request_queue_limit_per_worker: Count | None = None
    raw_isl_token_queue_limit_per_worker: Count | None = None
    cached_token_queue_limit_per_worker: Count | None = None

    @property
    def queues(self) -> bool:
        """Whether its requests can have to wait."""
        return self.prefill_busy_threshold is not None or self.prefill_busy_threshold_frac is not None


class PolicyProfile(Strict, frozen=True):
    """The classes of requests. Every pair of a family and a bucket has exactly one."""

    default_policy_family: str
    uncached_isl_buckets: list[CacheBucket]
    policy_classes: list[PolicyClass]

    def check(self, label: str) -> None:
        """Raise ValueError with the first finding; `label` names the profile."""
        for text in self._findings():
            raise ValueError(f"{label} {text}")

    def _findings(self) -> list[str]:
        if not self.policy_classes:
            return ["policy_classes must not be empty"]
        return _bucket_findings(self.uncached_isl_buckets) + self._class_findings()

    def _class_findings(self) -> list[str]:
        findings: list[str] = []
        buckets = [bucket.bucket for bucket in self.uncached_isl_buckets]
        names: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        for entry in self.policy_classes:
            findings += _own_findings(entry)
            if entry.cache_bucket is not None and entry.cache_bucket not in buckets:
                findings.append(f'policy class "{entry.name}" references unknown cache bucket "{entry.cache_bucket}"')
            if entry.name in names:
                findings.append(f'contains duplicate policy class "{entry.name}"')
            names.add(entry.name)
            if entry.policy_family is not None and entry.cache_bucket is not None:
                pair = (entry.policy_family, entry.cache_bucket)
                if pair in pairs:
                    findings.append(f'contains duplicate policy classes for family "{pair[0]}" and bucket "{pair[1]}"')
                pairs.add(pair)
        families = {family for family, _ in pairs}
        findings += [
            f'explicit policy class "{entry.name}" collides with a policy family'
            for entry in self.policy_classes
            if entry.policy_family is None and entry.name in families
        ]
        if self.default_policy_family not in families:
            findings.append(f'default_policy_family "{self.default_policy_family}" does not name a configured family')
        findings += [
            f'is missing a policy class for family "{family}" and bucket "{bucket}"'
            for family in sorted(families)
            for bucket in buckets
            if (family, bucket) not in pairs
        ]
        return findings


class RouterPolicy(Strict, frozen=True):
    """What `router_policy_config` holds: settings, a root profile (all three of its fields), profiles per model."""

    router: RouterSettings | None = None
    default_policy_family: str | None = None
    uncached_isl_buckets: list[CacheBucket] | None = None
    policy_classes: list[PolicyClass] | None = None
    models: dict[str, PolicyProfile] | None = None

    def __post_init__(self) -> None:
        given = [
            part is not None for part in (self.default_policy_family, self.uncached_isl_buckets, self.policy_classes)
        ]
        if any(given) and not all(given):
            raise ValueError(
                "root profile must specify default_policy_family, uncached_isl_buckets, and policy_classes "
                "when any root profile field is present"
            )
        if not (any(given) or self.router is not None or self.models):
            raise ValueError(
                "router policy config must define router settings, a root profile or at least one model profile"
            )
        root = self.root
        if root is not None:
            root.check("root")
        for name, profile in (self.models or {}).items():
            profile.check(f'model "{name}"')

    @property
    def root(self) -> PolicyProfile | None:
        """The profile for all models without one of their own."""
        if self.default_policy_family is None or self.uncached_isl_buckets is None or self.policy_classes is None:
            return None
        return PolicyProfile(
            default_policy_family=self.default_policy_family,
            uncached_isl_buckets=self.uncached_isl_buckets,
            policy_classes=self.policy_classes,
        )

    def profile(self, model_name: str | None) -> PolicyProfile | None:
        """The profile of a model: its own, or else the root profile."""
        own = (self.models or {}).get(model_name) if model_name is not None else None
        return own or self.root


_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def _bucket_findings(buckets: list[CacheBucket]) -> list[str]:
    if not buckets or buckets[0].min_tokens:
        return ["uncached_isl_buckets must start at min_tokens 0"]
    findings = [
        "uncached_isl_buckets min_tokens must be strictly increasing"
        for lower, upper in itertools.pairwise(buckets)
        if upper.min_tokens <= lower.min_tokens
    ]
    names = [bucket.bucket for bucket in buckets]
    findings += [f'contains duplicate cache bucket "{name}"' for name in dict.fromkeys(names) if names.count(name) > 1]
    return findings


def _own_findings(entry: PolicyClass) -> list[str]:
    findings = []
    if not _NAME.fullmatch(entry.name):
        findings.append(f'policy class name "{entry.name}" must match {_NAME.pattern}')
    label = f'policy class "{entry.name}"'
    if (entry.policy_family is None) != (entry.cache_bucket is None):
        findings.append(f"{label} must specify both policy_family and cache_bucket or neither for an explicit class")
    if entry.queue_policy == "lcfs":
        findings.append(f"{label} queue_policy must be fcfs or wspt")
    if not entry.quantum:
        findings.append(f"{label} quantum must be greater than zero")
    share = entry.prefill_busy_threshold_frac
    if share is not None and not 0.0 <= share < math.inf:
        findings.append(f"{label} prefill_busy_threshold_frac must be finite and non-negative")
    return findings
