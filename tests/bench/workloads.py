"""The workloads of the benchmark: each as our spec, and as a case of the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


class Workload(msgspec.Struct, frozen=True):
    """A named run, for us and for the reference."""

    name: str
    spec: dict[str, Any]
    case: dict[str, Any]


def trace(name: str, path: Path, workers: int, *, placement: str = "round_robin", **rank: Any) -> Workload:
    """A Mooncake trace on workers of which each has one rank, vLLM unless `rank` says otherwise."""
    config = {
        "num_workers": workers,
        "extra_engine_args": {"engine": rank},
        "trace_block_size": 512,
        "router_mode": placement,
    }
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "engine": {"rank": rank},
        "adapters": {"placement": {"provider": placement}},
        "workload": {"kind": "trace", "path": str(path)},
    }
    return Workload(name, spec, {"entry": "trace", "trace_path": str(path), "config": config})


def two_pools(name: str, path: Path, prefill: int, decode: int) -> Workload:
    """A Mooncake trace on vLLM workers that prefill and vLLM workers that decode."""
    config = {
        "num_prefill_workers": prefill,
        "num_decode_workers": decode,
        "prefill_engine_args": {"engine": {"worker_type": "prefill"}},
        "decode_engine_args": {"engine": {"worker_type": "decode"}},
        "trace_block_size": 512,
    }
    spec = {
        "topology": {
            "kind": "disaggregated",
            "prefill": {"initial_workers": prefill},
            "decode": {"initial_workers": decode},
        },
        "workload": {"kind": "trace", "path": str(path)},
    }
    return Workload(name, spec, {"entry": "trace", "trace_path": str(path), "config": config})


def synthetic(
    name: str,
    workers: int,
    requests: int,
    inputs: int,
    outputs: int,
    *,
    rate: float | None = None,
    cap: int | None = None,
) -> Workload:
    """Generated requests, at `rate` requests/s or with `cap` in flight."""
    args = {"input_tokens": inputs, "output_tokens": outputs, "request_count": requests}
    control = {"request_rate": rate} if rate is not None else {"replay_concurrency": cap}
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "workload": {"kind": "synthetic", **args, **({"request_rate": rate} if rate is not None else {})},
        "max_in_flight": cap,
    }
    return Workload(name, spec, {"entry": "synthetic", "args": args, "config": {"num_workers": workers, **control}})


def workloads(traces: Path) -> list[Workload]:
    """What is measured against the reference."""
    conversation, generated = traces / "mooncake-conversation.jsonl", traces / "mooncake-synthetic.jsonl"
    return [
        *(trace(f"conversation x{workers}", conversation, workers) for workers in (1, 4, 8, 32)),
        *(trace(f"KV router x{workers}", conversation, workers, placement="kv_router") for workers in (4, 16)),
        trace("conversation x4, 2000 blocks", conversation, 4, num_gpu_blocks=2000),
        trace("TensorRT-LLM x4", conversation, 4, backend="trtllm"),
        trace("SGLang x4, pages of 1", conversation, 4, backend="sglang", num_gpu_blocks=1_048_576),
        trace(
            "SGLang x4, pages of 64, lpm",
            conversation,
            4,
            backend="sglang",
            block_size=64,
            sglang={"schedule_policy": "lpm"},
        ),
        two_pools("2 prefill, 2 decode", conversation, 2, 2),
        two_pools("4 prefill, 4 decode", conversation, 4, 4),
        trace("Mooncake synthetic x4", generated, 4),
        synthetic("10k 512/1024 at 20/s x4", 4, 10_000, 512, 1024, rate=20.0),
        synthetic("10k 1024/512, 256 in flight x4", 4, 10_000, 1024, 512, cap=256),
    ]


def step_times(traces: Path) -> list[Workload]:
    """Times of aiconfigurator-core (its extra is needed) beside polynomial ones with as many blocks."""
    conversation = traces / "mooncake-conversation.jsonl"
    timing = {"type": "aiconfigurator", "model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm"}
    return [
        trace("conversation x4, polynomial", conversation, 4, num_gpu_blocks=6765),
        trace("conversation x4, aiconfigurator", conversation, 4, num_gpu_blocks=6765, timing_model=timing),
    ]


def growth() -> list[Workload]:
    """How the time per request develops with the number of requests, and of workers at constant total load."""
    return [
        *(
            synthetic(f"{requests // 1000}k 512/128 at 20/s x4", 4, requests, 512, 128, rate=20.0)
            for requests in (1_000, 10_000, 100_000)
        ),
        *(
            synthetic(f"10k 512/128 at 20/s x{workers}", workers, 10_000, 512, 128, rate=20.0)
            for workers in (1, 2, 4, 8, 16, 32, 64)
        ),
    ]
