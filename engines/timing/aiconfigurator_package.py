"""All that is asked of the package aiconfigurator-core: which data it has, its native model, its memory estimate.

It is imported when something is asked first: that takes a second, and it is an optional extra.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import json
import logging
import warnings
from collections.abc import Sequence
from importlib import resources, util
from types import ModuleType
from typing import Any, Protocol

import msgspec

from messages.errors import InputError, ReplayError

_PACKAGE = "aiconfigurator_core"
_NO_SYSTEMS = frozenset({"query_versions", "attention_lane_defaults", "perf_data_reuse_manifest"})
_SAME_ARCHITECTURE = {
    "llama-3.3-70b": "llama-3.1-70b",
    "llama-3-8b": "llama-3.1-8b",
    "llama-3-70b": "llama-3.1-70b",
}
_LONGEST_REASON = 240


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated: names as the package has them, sizes in GPUs."""

    model: str
    system: str
    backend: str
    backend_version: str
    tensor_parallel_size: int
    attention_dp_size: int
    expert_parallel_size: int

    @property
    def label(self) -> str:
        """The deployment in words."""
        size = f"tensor_parallel_size {self.tensor_parallel_size}"
        return f"{self.model} on {self.system} with {self.backend} {self.backend_version} and {size}"


class NativeModel(Protocol):
    """The part of the package's model that is used."""

    def estimate_forward_pass_time_ms(self, fpm_json: str) -> float | None:
        """Time of the pass that the text describes."""
        ...


class KvCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of one GPU in bytes, and what of it is for the KV cache."""

    total: int
    weights: int
    activations: int
    runtime: int
    communication: int
    cache: int
    bytes_per_token: int
    tokens: int


def require_package() -> None:
    """Raise InputError where the package is not installed."""
    if util.find_spec(_PACKAGE) is None:
        raise InputError(
            'type: "aiconfigurator" needs aiconfigurator-core, which is not installed: '
            'pip install "aisim-actors[aiconfigurator]" (Python 3.11 to 3.13)'
        )
    # It logs what it makes do with, and without a handler of the user's all of that appears on standard error.
    logger = logging.getLogger(_PACKAGE)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def known_models() -> list[str]:
    """The names of the models that the package knows and brings the configuration of; of others it tries a download."""
    require_package()
    suffix = "_config.json"
    files = [entry.name for entry in (resources.files(_PACKAGE) / "model_configs").iterdir()]
    bundled = {name.removesuffix(suffix).replace("--", "/") for name in files if name.endswith(suffix)}
    # Some configurations lie there without the package looking at them.
    return sorted(bundled & _sdk("common").DefaultHFModels)


def resolve_model(name: str) -> str:
    """The package's name of a model; what differs only in organisation, fine-tuning or version may stand for it.

    Raises InputError where there is none.
    """
    names = known_models()
    if name in names:
        return name
    by_key: dict[str, list[str]] = {}
    for known in names:
        by_key.setdefault(_key(known), []).append(known)
    key = _key(name)
    found = by_key.get(key) or by_key.get(_SAME_ARCHITECTURE.get(key, "")) or []
    if len(found) == 1:
        return found[0]
    raise InputError(f"model: {_unknown('model', name, found or names)}")


def _key(name: str) -> str:
    text = name.rpartition("/")[2].lower().removeprefix("meta-")
    for ending in ("-instruct", "-chat", "-hf"):
        text = text.removesuffix(ending)
    return text


def known_systems() -> list[str]:
    """The kinds of GPU that the package describes."""
    require_package()
    names = [entry.name for entry in (resources.files(_PACKAGE) / "systems").iterdir()]
    systems = {name.removesuffix(".yaml") for name in names if name.endswith(".yaml")}
    return sorted(systems - _NO_SYSTEMS)


def resolve_version(system: str, backend: str, version: str | None) -> str:
    """The version of a backend whose data are used; None stands for the current one.

    Raises InputError where the package has no data of the system, the backend or the version.
    """
    systems = known_systems()
    if system not in systems:
        raise InputError(f"system: {_unknown('system', system, systems)}")
    slots = _versions(system, backend)
    if not slots:
        others = [name for name in ("vllm", "sglang", "trtllm") if name != backend and _versions(system, name)]
        usable = [name for name in systems if _versions(name, backend)]
        hint = f"data of {', '.join(others)} may be used with backend" if others else f"choose {', '.join(usable)}"
        raise InputError(f"system: aiconfigurator-core has no data of {backend} on {system}; {hint}")
    if version is None:
        return slots["current"]
    if version in slots:
        return slots[version]
    if version in slots.values():
        return version
    known = ", ".join(slots.values())
    raise InputError(f'backend_version: no data of {backend} "{version}" on {system}; available: {known}')


def _versions(system: str, backend: str) -> dict[str, str]:
    """The versions with data, by the package's names of them ("current", "next")."""
    database = _sdk("perf_database")
    return database.get_version_slots(system, backend) or {}


@functools.lru_cache(maxsize=16)
def native_model(deployment: Deployment) -> NativeModel:
    """The model of a deployment, built in one or two seconds.

    Raises InputError where the package has no data of it or does not know how to split the model.
    """
    require_package()
    gpus = deployment.tensor_parallel_size * deployment.attention_dp_size
    experts = deployment.expert_parallel_size
    if gpus % experts:
        raise InputError(
            f"expert_parallel_size: {gpus} GPUs of a worker cannot be split into {experts} equal groups of experts"
        )
    config = {
        "schema_version": 1,
        "model_name": deployment.model,
        "system_name": deployment.system,
        "backend": deployment.backend,
        "backend_version": deployment.backend_version,
        "tp_size": deployment.tensor_parallel_size,
        "pp_size": 1,
        "attention_dp_size": deployment.attention_dp_size,
        "moe_tp_size": gpus // experts,
        "moe_ep_size": experts,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            package: Any = importlib.import_module(_PACKAGE)
            model: NativeModel = package.RustForwardPassPerfModel.from_native(json.dumps(config))
            for shape in ((1, 64, 0, 0, 0), (0, 0, 0, 1, 64), (1, 64, 0, 1, 64)):
                _estimate(model, *shape)
        except Exception as error:
            raise InputError(f"model: aiconfigurator-core cannot time {deployment.label}: {_reason(error)}") from None
    return model


def forward_pass_ms(
    model: NativeModel, prefill_count: int, new_tokens: int, known_tokens: int, decode_count: int, kv_tokens: int
) -> float:
    """Time of one pass. Raises ReplayError where the model has none."""
    try:
        return _estimate(model, prefill_count, new_tokens, known_tokens, decode_count, kv_tokens)
    except Exception as error:
        raise ReplayError(
            f"aiconfigurator-core cannot time a pass of {prefill_count} prompts with {new_tokens} new and "
            f"{known_tokens} known tokens beside {decode_count} decoding requests with {kv_tokens} tokens: "
            f"{_reason(error)}"
        ) from None


def _estimate(
    model: NativeModel, prefill_count: int, new_tokens: int, known_tokens: int, decode_count: int, kv_tokens: int
) -> float:
    time_ms = model.estimate_forward_pass_time_ms(
        f'{{"scheduled_requests":{{"num_prefill_requests":{prefill_count},"sum_prefill_tokens":{new_tokens},'
        f'"sum_prefill_kv_tokens":{known_tokens},"num_decode_requests":{decode_count},'
        f'"sum_decode_kv_tokens":{kv_tokens}}}}}'
    )
    if time_ms is None:
        raise ValueError("it has no time for such a pass")
    return time_ms


def kv_capacity(deployment: Deployment, utilization: float, max_tokens: int, max_requests: int) -> KvCapacity:
    """The memory left for the KV cache. max_tokens, max_requests: the most that a pass computes.

    Raises InputError where nothing is left.
    """
    memory = _sdk("memory")
    gpus = deployment.tensor_parallel_size * deployment.attention_dp_size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found: dict[str, Any] = memory.estimate_kv_cache(
                deployment.model,
                deployment.system,
                deployment.backend,
                deployment.backend_version,
                max_num_tokens=max_tokens,
                max_batch_size=max_requests,
                memory_fraction_kind="of_free" if deployment.backend == "trtllm" else "of_total",
                memory_fraction_value=utilization,
                tp_size=deployment.tensor_parallel_size,
                attention_dp_size=deployment.attention_dp_size,
                moe_tp_size=gpus // deployment.expert_parallel_size,
                moe_ep_size=deployment.expert_parallel_size,
            )
        except Exception as error:
            raise InputError(
                f"gpu_memory_utilization: {utilization} gives no KV cache to {deployment.label}: {_reason(error)}; "
                "use more GPUs per rank, or give num_gpu_blocks"
            ) from None
    parts = found["memory_breakdown"]
    return KvCapacity(
        total=found["total_gpu_capacity_bytes"],
        weights=parts["weights_bytes"],
        activations=parts["activations_bytes"],
        runtime=parts["runtime_overhead_bytes"],
        communication=parts["comm_overhead_bytes"],
        cache=found["total_kv_size_bytes"],
        bytes_per_token=found["kv_size_per_token_bytes"],
        tokens=found["total_kv_size_tokens"],
    )


def _sdk(name: str) -> ModuleType:
    """A module of the package's Python part."""
    require_package()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"{_PACKAGE}.sdk.{name}")


def _unknown(noun: str, name: str, names: Sequence[str]) -> str:
    lowered = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.4)
    hint = f'did you mean "{lowered[close[0]]}"? ' if close else ""
    return f'aiconfigurator-core has no {noun} "{name}"; {hint}available: {", ".join(names)}'


def _reason(error: Exception) -> str:
    """The last of the nested causes that an error text lists, without the places of its data files."""
    text = " ".join(str(error).split()) or type(error).__name__
    for label in ("AssertionError: ", "ValueError: ", "KeyError: "):
        text = text.rpartition(label)[2]
    text = text.partition(" at /")[0]
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."
