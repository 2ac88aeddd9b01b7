"""Step times of aiconfigurator-core: whole passes, tables of decode times, names, and what it has no data of."""

from __future__ import annotations

import socket

import pytest

from engines.timing.aiconfigurator import AiconfiguratorModel
from engines.timing.aiconfigurator_package import (
    forward_pass_ms,
    known_models,
    known_systems,
    resolve_model,
    resolve_version,
)
from engines.timing.contexts import TOLERANCE
from engines.timing.durations import Durations
from engines.timing.sums import NO_DECODE, DecodeSums, PrefillSums
from messages.errors import InputError, ReplayError
from messages.spec import AiconfiguratorTiming

pytestmark = pytest.mark.usefixtures("aiconfigurator")

LLAMA = "meta-llama/Meta-Llama-3.1-8B"


def timing(**parts: object) -> AiconfiguratorTiming:
    return AiconfiguratorTiming(**{"model": LLAMA, "system": "h100_sxm", **parts})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> AiconfiguratorModel:
    return AiconfiguratorModel(timing())


def test_a_mixed_pass_is_not_the_sum(model: AiconfiguratorModel) -> None:
    prefill, decode = PrefillSums(1, 2048, 0), DecodeSums(32, 32_000)
    alone, decode_ms = model.pass_ms(prefill, NO_DECODE, 0), model.decode_ms(*decode, 0)
    both = model.pass_ms(prefill, decode, 0)
    assert (alone, decode_ms, both) == pytest.approx((43.5, 8.3, 46.5), abs=0.05)
    assert both < alone + decode_ms


@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
def test_decode_times_are_interpolated_closely(backend: str) -> None:
    model = AiconfiguratorModel(timing(backend=backend))
    for count in (1, 3, 17, 64, 200):
        for context in (1, 2, 3, 5, 30, 129, 777, 2048, 4999, 20_011):
            exact = model.exact_decode_ms(count, context)
            assert model.decode_ms(count, count * context, 0) == pytest.approx(exact, rel=4 * TOLERANCE)
            assert model.decode_ms(count, count * context + count - 1, 0) == model.decode_ms(count, count * context, 0)


def test_a_run_equals_single_passes(model: AiconfiguratorModel) -> None:
    durations = Durations(model, 1.0, 1.0, 400_000)
    for count, tokens, passes in ((1, 250, 20), (7, 7 * 500 + 3, 600), (64, 64 * 2047 + 63, 5)):
        run = durations.decode_run_ms(count, tokens, passes).tolist()
        assert run == [durations.decode_ms(count, tokens + index * count) for index in range(passes)]


def test_experts_are_split_as_asked() -> None:
    mixture = "Qwen/Qwen3-30B-A3B"
    together = AiconfiguratorModel(timing(model=mixture, tensor_parallel_size=2))
    apart = AiconfiguratorModel(timing(model=mixture, tensor_parallel_size=2, expert_parallel_size=2))
    assert together.decode_ms(32, 32_000, 0) != apart.decode_ms(32, 32_000, 0)
    with pytest.raises(InputError, match="2 GPUs of a worker cannot be split into 3 equal groups of experts"):
        AiconfiguratorModel(timing(model=mixture, tensor_parallel_size=2, expert_parallel_size=3))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (LLAMA, LLAMA),
        ("meta-llama/Llama-3.1-8B", LLAMA),
        ("meta-llama/Llama-3.1-8B-Instruct", LLAMA),
        ("llama-3.1-8b", LLAMA),
        ("NousResearch/Meta-Llama-3.1-8B-Instruct", LLAMA),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
    ],
)
def test_common_names_stand_for_the_bundled_ones(given: str, meant: str) -> None:
    assert resolve_model(given) == meant


def test_every_bundled_name_stands_for_itself() -> None:
    assert [resolve_model(name) for name in known_models()] == known_models()
    assert {"h100_sxm", "h200_sxm", "b200_sxm", "a100_sxm", "l40s", "rtx_pro_6000_server"} <= set(known_systems())


@pytest.mark.parametrize(
    ("parts", "finding"),
    [
        ({"model": "Qwen/Qwen3-33B"}, 'model: aiconfigurator-core has no model "Qwen/Qwen3-33B"; did you mean "Qwen/'),
        ({"model": "my-org/secret"}, 'model: aiconfigurator-core has no model "my-org/secret"; '),
        ({"model": "mistralai/Mixtral-8x7B-v0.1"}, "model: aiconfigurator-core has no model "),
        ({"system": "h100_sxn"}, 'system: aiconfigurator-core has no system "h100_sxn"; did you mean "h100_sxm"?'),
        ({"system": "l4"}, "system: aiconfigurator-core has no data of vllm on l4; choose "),
        ({"backend_version": "0.1.0"}, 'backend_version: no data of vllm "0.1.0" on h100_sxm; available: '),
        ({"tensor_parallel_size": 3}, f"model: aiconfigurator-core cannot time {LLAMA} on h100_sxm with vllm "),
    ],
)
def test_what_it_has_no_data_of_is_refused_without_a_download(
    parts: dict[str, object], finding: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(InputError) as caught:
        AiconfiguratorModel(timing(**parts))
    assert str(caught.value).startswith(finding)
    assert capfd.readouterr() == ("", "")


def test_a_pass_without_a_time_ends_the_run() -> None:
    class Silent:
        def estimate_forward_pass_time_ms(self, fpm_json: str) -> None:
            return None

    with pytest.raises(ReplayError, match="beside 2 decoding requests with 9 tokens: it has no time for such a pass"):
        forward_pass_ms(Silent(), 0, 0, 0, 2, 9)


def test_versions_may_be_named_by_their_age() -> None:
    current = resolve_version("h100_sxm", "vllm", None)
    assert resolve_version("h100_sxm", "vllm", "current") == resolve_version("h100_sxm", "vllm", current) == current
