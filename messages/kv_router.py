"""The configuration of the KV router. Names and defaults are those of the reference's KvRouterConfig.

Values are checked when a configuration is made (ValueError); the texts are the reference's.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from messages.fields import Count, Seed, Strict
from messages.router_policy import RouterPolicy

QueuePolicy = Literal["fcfs", "lcfs", "wspt"]


class KvRouterConfig(Strict, frozen=True):
    """How the KV router weighs, queues and chooses.

    overlap_score_weight: older name of `prefill_load_scale`, which it overrides; 0 also means no overlap credit.
    overlap_score_credit: blocks of prefill work that a cached block saves in the cost.
    overlap_score_credit_decay: how fast that credit fades as a rank has more prompt tokens to build than others.
    prefill_load_scale: weight of the blocks to prefill. decode_active_request_weight: cost per active request.
    router_temperature: 0 takes the lowest cost; above, ranks are drawn with `router_seed`.
    router_track_active_blocks, router_track_prefill_tokens: false leaves the decode or the prefill term out.
    router_assume_kv_reuse: whether active requests share the blocks of a common prefix.
    router_queue_threshold: arrivals wait while every rank has more prompt tokens to build than this share of
        `max_num_batched_tokens`; None for no queue.
    router_policy_config: queue classes, inline or the path of a JSON or YAML file; model_name: the profile in it.
    prefill_queue_policy, decode_queue_policy: what a pool has instead of `router_queue_policy`.
    kv_event_lag_ms: time from the end of a pass until its KV events are known.
    All other fields are checked and have no effect.
    """

    overlap_score_weight: float | None = None
    overlap_score_credit: float = 1.0
    overlap_score_credit_decay: float = 0.0
    prefill_load_scale: float = 1.0
    decode_active_request_weight: float = 0.0
    host_cache_hit_weight: float = 0.75
    disk_cache_hit_weight: float = 0.25
    router_temperature: float = 0.0
    use_kv_events: bool = True
    router_replica_sync: bool = False
    router_track_active_blocks: bool = True
    router_track_output_blocks: bool = False
    router_assume_kv_reuse: bool = True
    router_track_prefill_tokens: bool = True
    router_prefill_load_model: str = "none"
    router_ttl_secs: float = 120.0
    router_approximate_cache_policy: str = "ttl"
    router_queue_threshold: float | None = None
    router_queue_policy: str = "fcfs"
    router_event_threads: int = 4
    use_remote_indexer: bool = False
    serve_indexer: bool = False
    enable_session_prefix_index: bool = False
    shared_cache_multiplier: float | None = None
    shared_cache_type: str = "none"
    router_predicted_ttl_secs: float | None = None
    conditional_disagg_enabled: bool = False
    conditional_disagg_policy: str = "isl_bounding"
    conditional_disagg_eff_isl_threshold: Count = 2048
    conditional_disagg_eff_isl_ratio_threshold: float = 0.7
    conditional_disagg_prefill_busy_threshold: float | None = None
    conditional_disagg_decode_busy_threshold: float | None = None
    router_policy_config: str | RouterPolicy | None = None
    router_prefill_policy: str | None = None
    router_decode_policy: str | None = None
    router_tracking_hash: str = "public-xxh3-v1"
    router_tracking_key_file: str | None = None
    router_tracking_key_id: str | None = None
    prefill_queue_policy: QueuePolicy | None = None
    decode_queue_policy: QueuePolicy | None = None
    model_name: str | None = None
    kv_event_lag_ms: float | None = 0.0
    router_seed: Seed = 0

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_names()
        self._check_pairs()

    @property
    def prefill_scale(self) -> float:
        """The weight of the prefill term."""
        return self.prefill_load_scale if self.overlap_score_weight is None else self.overlap_score_weight

    @property
    def overlap_credit(self) -> float:
        """The credit per cached block."""
        return 0.0 if self.overlap_score_weight == 0.0 else self.overlap_score_credit

    def _check_numbers(self) -> None:
        def check(name: str, sound: Any, rule: str) -> None:
            value = getattr(self, name)
            if value is not None and not sound(value):
                raise ValueError(f"{name} {rule}")

        if not _is_finite(self.prefill_scale):
            raise ValueError("prefill_load_scale must be finite and non-negative")
        check("overlap_score_credit", _is_finite, "must be a finite, non-negative number")
        for name in (
            "overlap_score_credit_decay",
            "prefill_load_scale",
            "decode_active_request_weight",
            "router_temperature",
        ):
            check(name, _is_finite, "must be finite and non-negative")
        for name in (
            "host_cache_hit_weight",
            "disk_cache_hit_weight",
            "shared_cache_multiplier",
            "conditional_disagg_eff_isl_ratio_threshold",
        ):
            check(name, lambda value: 0.0 <= value <= 1.0, "must be between 0 and 1")
        for name in (
            "router_ttl_secs",
            "router_queue_threshold",
            "router_predicted_ttl_secs",
            "conditional_disagg_prefill_busy_threshold",
            "conditional_disagg_decode_busy_threshold",
        ):
            check(name, lambda value: value >= 0.0, "must be greater than or equal to 0")
        check("router_event_threads", lambda value: value >= 1, "must be at least 1")
        check("kv_event_lag_ms", _is_finite, f"must be finite and non-negative, got {self.kv_event_lag_ms:g}")

    def _check_names(self) -> None:
        if self.router_prefill_load_model in ("ais", "aic"):
            if not self.router_track_prefill_tokens:
                raise ValueError("router_prefill_load_model requires router_track_prefill_tokens=true")
            raise ValueError(
                f'this version does not support router_prefill_load_model "{self.router_prefill_load_model}"; '
                'expected "none"'
            )
        if self.router_prefill_load_model != "none":
            raise ValueError(
                f"unknown prefill load model: \"{self.router_prefill_load_model}\", expected 'none' or 'ais'"
            )
        if self.router_approximate_cache_policy not in ("ttl", "lru"):
            raise ValueError(
                f"unknown approximate cache policy \"{self.router_approximate_cache_policy}\", expected 'ttl' or 'lru'"
            )
        if self.router_queue_policy not in ("fcfs", "lcfs", "wspt"):
            raise ValueError(
                f"unknown queue policy: \"{self.router_queue_policy}\", expected 'fcfs', 'lcfs', or 'wspt'"
            )
        if self.shared_cache_type not in ("none", "hicache"):
            raise ValueError(f"unknown shared_cache_type: \"{self.shared_cache_type}\", expected 'none' or 'hicache'")
        if self.conditional_disagg_policy not in ("isl_bounding", "prefill_load", "isl_or_load"):
            raise ValueError(
                f'unknown conditional_disagg_policy: "{self.conditional_disagg_policy}", '
                "expected 'isl_bounding', 'prefill_load', or 'isl_or_load'"
            )
        for name in (self.router_prefill_policy, self.router_decode_policy):
            if name not in (None, "", "default"):
                raise ValueError(f'custom worker-selection policy "{name}" is not supported by replay')

    def _check_pairs(self) -> None:
        if self.router_track_output_blocks and not self.router_track_active_blocks:
            raise ValueError("router_track_output_blocks requires router_track_active_blocks=true")
        if self.router_approximate_cache_policy == "lru" and self.use_kv_events:
            raise ValueError(
                "router_approximate_cache_policy=lru requires use_kv_events=false; the local side indexer is TTL-only"
            )
        if self.use_remote_indexer and self.serve_indexer:
            raise ValueError("use_remote_indexer and serve_indexer are mutually exclusive")
        if self.router_predicted_ttl_secs is not None and not self.use_kv_events:
            raise ValueError("router_predicted_ttl_secs requires use_kv_events=true")
        loads = {"prefill_load": "PrefillLoad", "isl_or_load": "IslOrLoad"}
        if (
            self.conditional_disagg_enabled
            and self.conditional_disagg_policy in loads
            and self.conditional_disagg_prefill_busy_threshold is None
            and self.router_queue_threshold is None
        ):
            raise ValueError(
                f"conditional_disagg policy={loads[self.conditional_disagg_policy]} needs prefill_busy_threshold, but "
                "neither conditional_disagg_prefill_busy_threshold nor router_queue_threshold is set"
            )
        self._check_tracking_keys()

    def _check_tracking_keys(self) -> None:
        if self.router_tracking_hash == "public-xxh3-v1":
            if self.router_tracking_key_file is not None or self.router_tracking_key_id is not None:
                raise ValueError("router tracking key options require router_tracking_hash=keyed-xxh3-v1")
        elif self.router_tracking_hash != "keyed-xxh3-v1":
            raise ValueError(
                f'router_tracking_hash must be public-xxh3-v1 or keyed-xxh3-v1, got "{self.router_tracking_hash}"'
            )
        elif self.router_tracking_key_file is None:
            raise ValueError("keyed-xxh3-v1 requires router_tracking_key_file")
        elif not self.router_tracking_key_id:
            raise ValueError("keyed-xxh3-v1 requires a nonempty router_tracking_key_id")


def _is_finite(value: float) -> bool:
    return 0.0 <= value < math.inf
