"""The planner's part of the document: the fields of `adapters.scaling.config`, with their defaults and limits.

Intervals are simulated seconds, budgets GPUs, endpoints workers. A field checks itself; what involves several fields is
in `actors.planner.configuration`, which also fills in what depends on others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from messages.fields import LARGEST, AbovePositive, Count, NonNegative, Positive, Strict

Percent = Annotated[int, Meta(ge=0, le=100)]
Rate = Annotated[float, Meta(ge=0.0, le=100.0)]

Mode = Literal["disagg", "prefill", "decode", "agg"]
OptimizationTarget = Literal["throughput", "latency", "load", "sla"]
PredictorName = Literal["constant", "arima", "prophet", "kalman"]


class ScheduledTarget(Strict, frozen=True):
    """Pool sizes from one time on, in active and starting workers; null leaves a pool as it is."""

    at_ms: NonNegative
    target_prefill: Count | None = None
    target_decode: Count | None = None


class ScheduleConfig(Strict, frozen=True):
    """Configuration of the provider `schedule`: a list of targets in order of time."""

    ticks: list[ScheduledTarget]

    def __post_init__(self) -> None:
        for index, (tick, following) in enumerate(zip(self.ticks, self.ticks[1:], strict=False)):
            if following.at_ms <= tick.at_ms:
                raise ValueError(
                    f"ticks[{index + 1}].at_ms must be later than the {tick.at_ms:g} before it, got {following.at_ms:g}"
                )


class GatewayConfig(Strict, frozen=True):
    """Registration of plugins over the network, which no replay has."""

    enabled: Literal[False] = False
    listen: str = "unix:///var/run/dynamo/planner/registry.sock"
    allow_insecure: bool = False


class SchedulingConfig(Strict, frozen=True):
    """When the planner acts. `scale_interval_seconds` null: the greatest common divisor of the intervals in use."""

    scale_interval_seconds: AbovePositive | None = None
    tick_max_duration_seconds: AbovePositive = 30.0
    external_plugins: Annotated[list[Any], Meta(max_length=0)] = msgspec.field(default_factory=list)
    gateway: GatewayConfig = GatewayConfig()


class PlannerConfig(Strict, frozen=True):
    """Configuration of the provider `planner`.

    The first group decides; the second is what a live system has beside it, checked but without effect on a replay.
    """

    mode: Mode = "disagg"
    optimization_target: OptimizationTarget = "throughput"
    enable_throughput_scaling: bool = True
    enable_load_scaling: bool = False
    load_adjustment_interval_seconds: Positive = 5
    throughput_adjustment_interval_seconds: Annotated[int, Meta(ge=-LARGEST, le=LARGEST)] = 180
    scheduling: SchedulingConfig = SchedulingConfig()
    max_throughput_scaling_replicas: Positive = 8
    max_gpu_budget: int = 8
    min_gpu_budget: int = -1
    min_endpoint: Count = 1
    prefill_min_endpoint: Positive | None = None
    decode_min_endpoint: Positive | None = None
    ttft_ms: float = 500.0
    itl_ms: float = 50.0
    load_predictor: PredictorName = "arima"
    load_predictor_log1p: bool = False
    prophet_window_size: Positive = 50
    kalman_q_level: float = 1.0
    kalman_q_trend: float = 0.1
    kalman_r: float = 10.0
    kalman_min_points: int = 5
    load_predictor_warmup_trace: str | None = None
    max_num_fpm_samples: Positive = 64
    fpm_sample_bucket_size: Positive = 16
    load_min_observations: int = 5
    load_scaling_down_sensitivity: Percent = 80
    prefill_scale_up_queue_tokens: Count | None = None
    prefill_scale_down_queue_tokens: Count | None = None
    decode_scale_up_kv_rate: Rate | None = None
    decode_scale_down_kv_rate: Rate | None = None
    speculative_nextn: Count = 0

    advisory: bool = False
    backend: str = "vllm"
    control_api_port: int = 9086
    decode_engine_num_gpu: Count | None = None
    enable_power_awareness: bool = False
    environment: str = "kubernetes"
    global_planner_namespace: str | None = None
    live_dashboard_port: int = 8080
    log_dir: str | None = None
    metric_reporting_prometheus_port: int = 0
    model_name: str | None = None
    namespace: str | None = None
    pre_deployment_sweeping_mode: str | None = "rapid"
    prefill_engine_num_gpu: Count | None = None
    profile_results_dir: str = "profiling_results"
    report_filename: str | None = None
    report_interval_hours: float | None = 24.0
    report_output_dir: str = "./planner_reports"
    report_write_gzip_log: bool = True
    aic_interpolation: Any = None
    throughput_metrics_source: str = "frontend"
    total_gpu_power_limit: float | None = None

    @property
    def scale_interval_s(self) -> float:
        """Time from tick to tick; the configuration has been completed."""
        assert self.scheduling.scale_interval_seconds is not None
        return self.scheduling.scale_interval_seconds

    def floor(self, role: Literal["prefill", "decode"]) -> int:
        """Least workers of a pool."""
        own = self.prefill_min_endpoint if role == "prefill" else self.decode_min_endpoint
        return self.min_endpoint if own is None else own


class ScheduleScaling(Strict, tag_field="provider", tag="schedule", frozen=True):
    """Pool sizes by a timetable."""

    config: ScheduleConfig


class PlannerScaling(Strict, tag_field="provider", tag="planner", frozen=True):
    """Pool sizes by the planner."""

    config: PlannerConfig = PlannerConfig()


ALIASES = {
    "load_adjustment_interval": "load_adjustment_interval_seconds",
    "throughput_adjustment_interval": "throughput_adjustment_interval_seconds",
    "ttft": "ttft_ms",
    "itl": "itl_ms",
}
"""Other names of fields."""
