"""Random cases that go where the reference's own generator does not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np


def reference_cases(
    backend: str, first: int, count: int, *, ranks: str, topology: str = "aggregated"
) -> list[dict[str, Any]]:
    """The first `count` cases of the reference's generator from seed `first` on.

    ranks: "one" or "several" (attention-DP) per worker; in disaggregated cases the ranks of each pool are then drawn
    here, from 1 to 3, since its generator leaves them out.
    """
    from fuzz import make_case

    cases: list[dict[str, Any]] = []
    seed = first
    while len(cases) < count:
        case = make_case(seed, backend, topology)
        if topology == "disaggregated":
            if ranks == "several":
                rng = random.Random(f"ranks/{backend}/{seed}")
                for pool in ("prefill", "decode"):
                    case["config"][f"{pool}_engine_args"]["dp_size"] = rng.randint(1, 3)
            cases.append(case)
        elif ("dp_size" in case["config"]["extra_engine_args"]) == (ranks == "several"):
            cases.append(case)
        seed += 1
    return cases


def scaled_case(backend: str, topology: str, seed: int) -> dict[str, Any]:
    """A case of the reference's generator with ticks that change the number of workers, and start-up delays."""
    from fuzz import make_case

    rng = random.Random(f"scaling/{backend}/{topology}/{seed}")
    case: dict[str, Any] = make_case(seed, backend, topology)
    aggregated = topology == "aggregated"
    at_ms, ticks = 0.0, []
    for _ in range(rng.randint(1, 12)):
        at_ms += rng.choice((5.0, 20.25, 37.5, 100.0, 500.0, 1500.0))
        prefill = None if aggregated else rng.choice((None, 1, 2, 3))
        ticks.append({"at_ms": at_ms, "target_prefill": prefill, "target_decode": rng.choice((None, 1, 2, 3, 4))})
    case["scaling"] = ticks
    for role in ("extra",) if aggregated else ("prefill", "decode"):
        engine = case["config"][f"{role}_engine_args"]
        if rng.random() < 0.5:
            engine["startup_time"] = rng.choice((0.0123, 0.05, 0.5, 2.0))
        if rng.random() < 0.3:
            engine["dp_size"] = rng.randint(1, 3)
    return case


def sampled_case(backend: str, topology: str, seed: int) -> dict[str, Any]:
    """A case with ticks that change the number of workers, and samples of telemetry."""
    case = scaled_case(backend, topology, seed)
    case["config"]["capture_telemetry"] = True
    rng = random.Random(f"telemetry/{backend}/{topology}/{seed}")
    case["config"]["telemetry_sample_interval_ms"] = rng.choice((3.0, 7.7, 20.25, 100.0, 1000.0))
    return case


def wider_pools_case(backend: str, seed: int) -> dict[str, Any]:
    """A case of two pools that have little in common, with any of what the reference's generator leaves out.

    That is: attention-DP, length limits, speculation, intervals, little room, small chunks, prompts without output.
    """
    from fuzz import make_case

    rng = random.Random(f"pools/{backend}/{seed}")
    case: dict[str, Any] = make_case(rng.randrange(10**9), backend, "disaggregated")
    case["seed"] = seed
    lengths = [row["input_length"] for row in case["trace"]]
    size = rng.choice((1, 2, 3, 4, 16, 24) if backend == "sglang" else (2, 3, 4, 16, 24))
    for pool in ("prefill", "decode"):
        engine = case["config"][f"{pool}_engine_args"]
        rank = engine["engine"]
        if rng.random() < 0.3:
            engine["dp_size"] = rng.randint(2, 3)
        if rng.random() < 0.25:
            rank["max_model_len"] = rng.randint(2, max(lengths) + 60)
        if pool == "decode" and rng.random() < 0.25:
            rank["aic_nextn"] = rng.randint(1, 5)
        if backend == "sglang":
            _vary_sglang(rng, case, rank)
        elif rng.random() < 0.5:
            rank["num_gpu_blocks"] = rng.randint(1, 2) * max(lengths) // size + rng.randint(1, 9)
        if backend == "vllm" and rng.random() < 0.3:
            rank["prefill_schedule_interval"] = rng.randint(2, 5)
        if backend != "sglang" and rng.random() < 0.3:
            rank["enable_chunked_prefill"] = False
        rank["block_size"] = size
        if backend == "sglang":
            rank["num_gpu_blocks"] = max(rank["num_gpu_blocks"], -(-max(lengths) // size) + rng.randint(1, 9))
            rank["sglang"]["chunked_prefill_size"] = size * rng.choice((3, 4, 6, 10, 100, 5000))
    for row in case["trace"]:
        if rng.random() < 0.05:
            row["output_length"] = 0
    return case


def wider_case(backend: str, seed: int, folder: Path) -> dict[str, Any]:
    """A case with any of what the reference's generator leaves out.

    That is: rejections, length limits, attention-DP with intervals, speculation, delta traces, authored outputs,
    synthetic load, profiles, a cut-off.
    """
    from fuzz import make_case

    rng = random.Random(f"wider/{backend}/{seed}")
    case: dict[str, Any] = make_case(rng.randrange(10**9), backend, "aggregated")
    config = case["config"]
    if rng.random() < 0.7:
        config["extra_engine_args"].pop("dp_size", None)
    rank = config["extra_engine_args"]["engine"]
    if backend == "vllm" and rng.random() < 0.4:
        rank["prefill_schedule_interval"] = rng.randint(2, 5)
    if rng.random() < 0.2:
        rank["aic_nextn"] = rng.randint(1, 5)
        if rng.random() < 0.6:
            rank["aic_nextn_accept_rates"] = ",".join(f"{rng.random():.2f}" for _ in range(rng.randint(1, 6)))
        if rng.random() < 0.5:
            rank["aic_mtp_seed"] = rng.randrange(2**63)
    lengths = [row["input_length"] for row in case["trace"]]
    if rng.random() < 0.4:
        rank["max_model_len"] = rng.randint(2, max(lengths) + 60)
    if backend == "sglang":
        _vary_sglang(rng, case, rank)
    else:
        if rng.random() < 0.3:
            rank["enable_chunked_prefill"] = False
        if rng.random() < 0.4:
            rank["num_gpu_blocks"] = rng.randint(1, max(2, max(lengths) // rank["block_size"]))
    if "aic_nextn" not in rank and rng.random() < 0.2:
        rank["decode_speedup_ratio"] = rng.choice((0.0, 0.7, 3.0))
    if rng.random() < 0.3:
        rank["timing_model"] = _profile(rng, folder / f"profile-{seed}.npz")
    if rng.random() < 0.15:
        config["max_sim_time_ms"] = rng.choice((0.0, 30.0, 400.0, 2000.5))
    shape = rng.random()
    if shape < 0.2:
        _make_synthetic(rng, case)
    elif shape < 0.3:
        _make_applied_compute(rng, case)
    else:
        if shape < 0.55:
            config["trace_format"] = "mooncake-delta"
            for row in case["trace"]:
                row["session_id"] = f"s{rng.randrange(5)}"
                row.pop("delay", None)
        if rng.random() < 0.3:
            for row in case["trace"]:
                if rng.random() < 0.7:
                    # Few values, so that outputs repeat each other and the numbers that hash ids are turned into.
                    row["output_token_ids"] = [rng.randrange(3) for _ in range(row["output_length"])]
    return case


def _vary_sglang(rng: random.Random, case: dict[str, Any], rank: dict[str, Any]) -> None:
    """Little room, small chunks, few reserved output tokens: so that requests wait, are cut and are retracted."""
    size = rng.choice((1, 2, 3, 4, 16, 24))
    rank["block_size"] = size
    pages = [-(-(row["input_length"] + row["output_length"] + 1) // size) for row in case["trace"]]
    rank["num_gpu_blocks"] = max(pages) + rng.choice((1, 2, max(pages) // 3 + 1, max(pages), 5000))
    if rng.random() < 0.5:
        rank["prefill_decode_interval"] = rng.choice((0, 1, 2, 3, 9))
    if rng.random() < 0.6:
        case["config"]["arrival_speedup_ratio"] = rng.choice((3.0, 30.0, 1000.0))
    rank["sglang"] = {
        "schedule_policy": rng.choice(("fifo", "lpm")),
        # Each rank of an attention-DP group gets its share.
        "chunked_prefill_size": size * rng.choice((3, 4, 6, 10, 100, 5000)),
        "max_prefill_tokens": rng.choice((40, 300, 16384)),
        "schedule_conservativeness": rng.choice((0.0, 0.1, 0.3, 1.0, 1.7)),
        "clip_max_new_tokens": rng.choice((0, 1, 7, 60, 4096)),
    }


def _profile(rng: random.Random, path: Path) -> dict[str, Any]:
    def axis(points: int, top: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array(sorted(rng.sample(range(1, top), points)), dtype=np.float64)

    rows, columns = rng.randint(2, 5), rng.randint(2, 5)
    isl = axis(rng.randint(2, 5), 600)
    np.savez(
        path,
        prefill_isl=isl,
        prefill_ttft_ms=np.array([rng.uniform(0.5, 40.0) for _ in isl]),
        decode_active_kv_tokens=axis(rows, 3000),
        decode_context_length=axis(columns, 700),
        decode_itl=np.array([[rng.uniform(0.5, 20.0) for _ in range(columns)] for _ in range(rows)]),
    )
    return {"type": "external", "provider": "dynamo_profile", "config": {"path": str(path)}}


def _make_synthetic(rng: random.Random, case: dict[str, Any]) -> None:
    config = case["config"]
    case["entry"] = "synthetic"
    case["trace"] = None
    for key in ("trace_block_size", "max_sim_time_ms"):
        config.pop(key, None)
    case["args"] = {
        "input_tokens": rng.choice((1, 30, 257)),
        "output_tokens": rng.choice((1, 2, 33)),
        "request_count": rng.randint(1, 30),
    }
    if "replay_concurrency" not in config:
        control = rng.choice(("request_rate", "arrival_interval_ms"))
        config[control] = rng.choice((3.0, 30.0, 70.5)) if control == "request_rate" else rng.choice((0.0, 30.0, 7.3))
    if rng.random() < 0.5:
        config["arrival_seed"] = rng.randrange(2**63)
    if rng.random() < 0.6:
        config["turns_per_session"] = rng.randint(1, 3)
        config["shared_prefix_ratio"] = rng.choice((0.0, 0.25, 0.5, 1.0))
        config["num_prefix_groups"] = rng.randint(0, 4)
        config["inter_turn_delay_ms"] = rng.choice((0.0, 12.5))


def _make_applied_compute(rng: random.Random, case: dict[str, Any]) -> None:
    config = case["config"]
    config["trace_format"] = "applied_compute_agentic"
    config.setdefault("replay_concurrency", 2)
    config.pop("arrival_speedup_ratio", None)
    config["trace_shared_prefix_ratio"] = rng.choice((0.0, 0.5, 0.9))
    config["trace_num_prefix_groups"] = rng.randint(0, 3)
    case["trace"] = [
        {
            "num_turns": turns,
            "input_prompt_length": rng.randint(1, 300),
            "assistant_response_length": [rng.randint(0, 40) for _ in range(turns)],
            "tool_call_output_length": [rng.randint(0, 90) for _ in range(turns)],
            "tool_call_latency": [rng.choice((0, 0.01, 1.5)) for _ in range(turns)],
            "final_assistant_response_length": rng.randint(0, 30),
        }
        for turns in (rng.randint(0, 4) for _ in range(rng.randint(1, 8)))
    ]
