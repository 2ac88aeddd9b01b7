"""The configuration of the KV router: what is refused and why, and the policy file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.cli import main
from actors.names import AGGREGATED, DECODE, PREFILL
from actors.routing.kv.settings import load_router_config, router_options
from actors.spec.loading import load_spec
from actors.validation import validate
from messages.errors import InputError
from messages.kv_router import KvRouterConfig
from messages.router_policy import RouterPolicy
from messages.spec import KvRouterPlacement, RankSpec

PROFILE: dict[str, Any] = {
    "default_policy_family": "a",
    "uncached_isl_buckets": [{"min_tokens": 0, "bucket": "s"}],
    "policy_classes": [{"name": "a_s", "policy_family": "a", "cache_bucket": "s", "quantum": 40}],
}
HERE = "adapters.placement.config"


def document(config: Any, **parts: Any) -> dict[str, Any]:
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
        "adapters": {"placement": {"provider": "kv_router", "config": config}},
        "requests": [],
        **parts,
    }


def findings(config: Any, **parts: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_spec(document(config, **parts))
    return [finding.removeprefix("spec: ") for finding in caught.value.findings]


def profile(**changes: Any) -> dict[str, Any]:
    """A profile whose only class, or the profile itself, is changed."""
    whole = json.loads(json.dumps(PROFILE))
    for name, value in changes.items():
        (whole if name in whole else whole["policy_classes"][0])[name] = value
    return whole


CONFIG_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"overlap_score_weight": -1.0}, "prefill_load_scale must be finite and non-negative"),
    ({"overlap_score_credit": -1}, "overlap_score_credit must be a finite, non-negative number"),
    ({"overlap_score_credit_decay": -1}, "overlap_score_credit_decay must be finite and non-negative"),
    ({"prefill_load_scale": -0.5}, "prefill_load_scale must be finite and non-negative"),
    ({"decode_active_request_weight": -1}, "decode_active_request_weight must be finite and non-negative"),
    ({"host_cache_hit_weight": 1.5}, "host_cache_hit_weight must be between 0 and 1"),
    ({"disk_cache_hit_weight": -1}, "disk_cache_hit_weight must be between 0 and 1"),
    ({"shared_cache_multiplier": 2}, "shared_cache_multiplier must be between 0 and 1"),
    ({"router_temperature": -1}, "router_temperature must be finite and non-negative"),
    ({"router_ttl_secs": -1}, "router_ttl_secs must be greater than or equal to 0"),
    ({"router_queue_threshold": -1}, "router_queue_threshold must be greater than or equal to 0"),
    ({"router_queue_policy": "x"}, "unknown queue policy: \"x\", expected 'fcfs', 'lcfs', or 'wspt'"),
    ({"router_prefill_load_model": "x"}, "unknown prefill load model: \"x\", expected 'none' or 'ais'"),
    (
        {"router_prefill_load_model": "ais"},
        'this version does not support router_prefill_load_model "ais"; expected "none"',
    ),
    (
        {"router_prefill_load_model": "aic", "router_track_prefill_tokens": False},
        "router_prefill_load_model requires router_track_prefill_tokens=true",
    ),
    (
        {"router_track_output_blocks": True, "router_track_active_blocks": False},
        "router_track_output_blocks requires router_track_active_blocks=true",
    ),
    ({"router_event_threads": 0}, "router_event_threads must be at least 1"),
    (
        {"use_remote_indexer": True, "serve_indexer": True},
        "use_remote_indexer and serve_indexer are mutually exclusive",
    ),
    (
        {"router_predicted_ttl_secs": 1, "use_kv_events": False},
        "router_predicted_ttl_secs requires use_kv_events=true",
    ),
    (
        {"router_approximate_cache_policy": "lru"},
        "router_approximate_cache_policy=lru requires use_kv_events=false; the local side indexer is TTL-only",
    ),
    (
        {"conditional_disagg_enabled": True, "conditional_disagg_policy": "isl_or_load"},
        "conditional_disagg policy=IslOrLoad needs prefill_busy_threshold, but neither "
        "conditional_disagg_prefill_busy_threshold nor router_queue_threshold is set",
    ),
    ({"router_prefill_policy": "mine"}, 'custom worker-selection policy "mine" is not supported by replay'),
    ({"router_tracking_hash": "keyed-xxh3-v1"}, "keyed-xxh3-v1 requires router_tracking_key_file"),
    (
        {"router_tracking_key_id": "a"},
        "router tracking key options require router_tracking_hash=keyed-xxh3-v1",
    ),
    ({"kv_event_lag_ms": -1.0}, "kv_event_lag_ms must be finite and non-negative, got -1"),
]


@pytest.mark.parametrize(("config", "text"), CONFIG_FAULTS, ids=lambda value: str(value)[:60])
def test_each_fault_of_the_configuration_has_its_text(config: dict[str, Any], text: str) -> None:
    assert findings(config) == [f"{HERE}: {text}"]


@pytest.mark.parametrize(
    ("config", "finding"),
    [
        ({"overlap_credit": 1}, f'{HERE}.overlap_credit: unknown key; did you mean "overlap_score_credit"?'),
        ({"router_queue_threshold": "x"}, f'{HERE}.router_queue_threshold: expected a number, got "x"'),
        ({"router_seed": -1}, f"{HERE}.router_seed: expected an integer >= 0, got -1"),
        (
            {"prefill_queue_policy": "lcfs"},
            f"{HERE}.prefill_queue_policy: an aggregated topology has no such pool; use router_queue_policy",
        ),
        (
            {"router_policy_config": {"router": {"router_temperature": 1}}},
            f"{HERE}.router_policy_config.router.router_temperature: unknown key; ",
        ),
        (
            {"router_policy_config": {"request_classifier": {"type": "x"}}},
            f"{HERE}.router_policy_config.request_classifier: this version does not support it; remove it",
        ),
        (
            {"router_policy_config": {"models": {"m": {"default_policy_family": 3}}}},
            f"{HERE}.router_policy_config.models.m.default_policy_family: expected a string, got 3",
        ),
    ],
)
def test_keys_and_types_are_checked_as_everywhere(config: dict[str, Any], finding: str) -> None:
    assert findings(config)[0].startswith(finding)


def test_a_request_cannot_ask_for_a_rank() -> None:
    row = {"id": "a", "arrival_time_ms": 0.0, "input_tokens": 4, "output_tokens": 1, "dp_rank": 0}
    assert findings({}, requests=[row]) == ["requests[0].dp_rank: the KV router chooses ranks itself; remove it"]


POLICY_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({}, "router policy config must define router settings, a root profile or at least one model profile"),
    (
        {"default_policy_family": "a"},
        "root profile must specify default_policy_family, uncached_isl_buckets, and policy_classes "
        "when any root profile field is present",
    ),
    (profile(policy_classes=[]), "root policy_classes must not be empty"),
    (profile(quantum=0), 'root policy class "a_s" quantum must be greater than zero'),
    (profile(queue_policy="lcfs"), 'root policy class "a_s" queue_policy must be fcfs or wspt'),
    (profile(name=""), 'root policy class name "" must match [A-Za-z0-9_.-]+'),
    (
        profile(prefill_busy_threshold_frac=-1),
        'root policy class "a_s" prefill_busy_threshold_frac must be finite and non-negative',
    ),
    (
        profile(cache_bucket=None),
        'root policy class "a_s" must specify both policy_family and cache_bucket or neither for an explicit class',
    ),
    (profile(cache_bucket="x"), 'root policy class "a_s" references unknown cache bucket "x"'),
    (profile(policy_family="b"), 'root default_policy_family "a" does not name a configured family'),
    (
        profile(policy_classes=PROFILE["policy_classes"] * 2),
        'root contains duplicate policy class "a_s"',
    ),
    (
        profile(policy_classes=[*PROFILE["policy_classes"], {"name": "a", "quantum": 1}]),
        'root explicit policy class "a" collides with a policy family',
    ),
    (
        profile(uncached_isl_buckets=[{"min_tokens": 1, "bucket": "s"}]),
        "root uncached_isl_buckets must start at min_tokens 0",
    ),
    (
        profile(uncached_isl_buckets=[{"min_tokens": 0, "bucket": "s"}, {"min_tokens": 0, "bucket": "t"}]),
        "root uncached_isl_buckets min_tokens must be strictly increasing",
    ),
    (
        profile(uncached_isl_buckets=[{"min_tokens": 0, "bucket": "s"}, {"min_tokens": 9, "bucket": "s"}]),
        'root contains duplicate cache bucket "s"',
    ),
    (
        profile(uncached_isl_buckets=[{"min_tokens": 0, "bucket": "s"}, {"min_tokens": 9, "bucket": "t"}]),
        'root is missing a policy class for family "a" and bucket "t"',
    ),
    ({"models": {"m": profile(quantum=0)}}, 'model "m" policy class "a_s" quantum must be greater than zero'),
]


@pytest.mark.parametrize(("policy", "text"), POLICY_FAULTS, ids=lambda value: str(value)[:60])
def test_each_fault_of_a_policy_has_its_text_inline_and_in_a_file(
    policy: dict[str, Any], text: str, tmp_path: Path
) -> None:
    (finding,) = findings({"router_policy_config": policy})
    assert finding.startswith(f"{HERE}.router_policy_config")
    assert finding.endswith(f": {text}")
    (tmp_path / "policy.json").write_text(json.dumps(policy, indent="\t"))
    (tmp_path / "spec.json").write_text(json.dumps(document({"router_policy_config": "policy.json"})))
    for check in (replay, validate):
        with pytest.raises(InputError) as caught:
            check(tmp_path / "spec.json")
        assert len(caught.value.findings) == 1
        assert caught.value.findings[0].startswith(f"{tmp_path / 'policy.json'}: ")
        assert caught.value.findings[0].endswith(text)


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (None, ": no such file"),
        (b"a: [1,\n", ":2: column 1: YAML is malformed: "),
        (b"\xff", ": cannot be read as text: "),
        (b"- 1", ": expected an object, got a list"),
        (b"1: 2", ": expected text as key, got 1"),
        (b"a: !!python/name:os.system x", "YAML is malformed: could not determine a constructor"),
        (b"[" * 5000, ": YAML cannot be read: "),
        (b"router: {router_ttl_secs: -5}", ": router: router_ttl_secs must be greater than or equal to 0"),
    ],
)
def test_a_policy_file_that_cannot_be_used(content: bytes | None, finding: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "policy.yaml").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_router_config(KvRouterConfig(router_policy_config="policy.yaml"), tmp_path)
    assert str(tmp_path / "policy.yaml") in caught.value.findings[0]
    assert finding in caught.value.findings[0]


def test_the_output_directory_must_not_replace_the_policy_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_text("router: {}")
    (tmp_path / "spec.json").write_text(json.dumps(document({"router_policy_config": "report.json"})))
    assert main(["replay", str(tmp_path / "spec.json"), "--output-dir", str(tmp_path), "--overwrite"]) == 2
    assert "report.json: --output-dir would replace an input of the replay" in capsys.readouterr().err


def test_the_settings_of_a_policy_override_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("router:\n  router_track_prefill_tokens: false\n")
    given = KvRouterConfig(router_policy_config="policy.yaml", router_queue_threshold=0.5)
    config = load_router_config(given, tmp_path)
    assert not config.router_track_prefill_tokens
    assert config.router_queue_threshold == 0.5


def test_a_model_has_its_own_profile_or_that_of_all() -> None:
    policy = RouterPolicy(models={"m": RouterPolicy(**_structs(profile())).root})
    for model_name, classes in (("m", ["a_s"]), ("n", ["default"]), (None, ["default"])):
        config = KvRouterConfig(router_policy_config=policy, model_name=model_name)
        found = router_options(config, RankSpec(), AGGREGATED).profile
        assert [entry.name for entry in found.policy_classes] == classes


def _structs(policy: dict[str, Any]) -> dict[str, Any]:
    placement = load_spec(document({"router_policy_config": policy})).spec.adapters.placement
    assert isinstance(placement, KvRouterPlacement)
    found = placement.config.router_policy_config
    assert isinstance(found, RouterPolicy)
    return {name: getattr(found, name) for name in policy}


def test_two_pools_get_variants_of_the_configuration() -> None:
    config = KvRouterConfig(
        overlap_score_credit=0.8, router_queue_policy="wspt", prefill_queue_policy="lcfs", router_queue_threshold=0.1
    )
    rank = RankSpec(block_size=16)
    prefill, decode = (router_options(config, rank, names) for names in (PREFILL, DECODE))
    assert (prefill.model.overlap_credit, prefill.model.track_blocks, prefill.model.track_prefill) == (0.8, False, True)
    assert (decode.model.overlap_credit, decode.model.track_blocks, decode.model.track_prefill) == (0.0, True, False)
    assert (prefill.consumes_kv_events, decode.consumes_kv_events) == (True, False)
    assert (prefill.shares_blocks, decode.shares_blocks) == (True, False)
    policies = [options.profile.policy_classes[0].queue_policy for options in (prefill, decode)]
    assert policies == ["lcfs", "wspt"]


def test_the_deprecated_weight_scales_the_prefill_term_and_0_drops_the_credit() -> None:
    half, zero = (
        KvRouterConfig(overlap_score_weight=0.5, prefill_load_scale=3.0),
        KvRouterConfig(overlap_score_weight=0.0),
    )
    assert (half.prefill_scale, half.overlap_credit) == (0.5, 1.0)
    assert (zero.prefill_scale, zero.overlap_credit) == (0.0, 0.0)
