"""What a report tells about the planner itself."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.planner.bootstrap import GRANULARITY, digest
from messages.planner import PlannerConfig

_WITHOUT_IDENTITY = (
    "report_output_dir",
    "report_filename",
    "report_interval_hours",
    "report_write_gzip_log",
    "live_dashboard_port",
    "control_api_port",
    "scheduling.gateway",
)
_PLUGINS = ("builtin_load_predict", "builtin_load_propose", "builtin_throughput_propose")


def describe(config: PlannerConfig, bootstrap: dict[str, Any]) -> dict[str, Any]:
    """The object `metadata` of the planner's report."""
    identity = msgspec.to_builtins(config)
    for path in _WITHOUT_IDENTITY:
        *parents, name = path.split(".")
        holder = identity
        for parent in parents:
            holder = holder[parent]
        del holder[name]
    return {
        "planner_config_digest": digest(identity),
        "planner_config_identity_exclusions": list(_WITHOUT_IDENTITY),
        "builtin_plugin_ids": list(_PLUGINS),
        "configured_plugin_identities": [],
        "plugin_pipeline": [{"plugin_id": name, "source": "builtin"} for name in _PLUGINS],
        "pipeline_schema_version": "planner-plugin-pipeline.v1",
        "mode": config.mode,
        "benchmark_granularity": GRANULARITY,
        "bootstrap": bootstrap,
        "details_captured": True,
    }
