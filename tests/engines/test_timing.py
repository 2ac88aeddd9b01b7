"""Durations are whole nanoseconds of a model's result, exactly, one at a time or many at once."""

from __future__ import annotations

import zipfile
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.timing.durations import Durations, nanoseconds, scaled, scaled_run, seconds
from engines.timing.fixed import FixedModel
from engines.timing.model import TimingModel, build_timing
from engines.timing.polynomial import PolynomialModel
from engines.timing.profile import ProfileModel
from messages.errors import InputError, ReplayError
from messages.spec import ExternalTiming, FixedTiming, PolynomialTiming, ProfileConfig

PROFILE = {
    "prefill_isl": np.array([8.0, 16.0, 40.0]),
    "prefill_ttft_ms": np.array([3.0, 4.7, 11.3]),
    "decode_active_kv_tokens": np.array([16.0, 40.0, 80.0]),
    "decode_context_length": np.array([8.0, 24.0]),
    "decode_itl": np.array([[0.4, 0.9], [1.7, 2.3], [2.9, 4.1]]),
}
MODELS: list[TimingModel] = [PolynomialModel(), FixedModel(7.25, 0.7), ProfileModel(PROFILE)]


@given(st.floats(min_value=0.0, max_value=1e6))
def test_nanoseconds_are_the_nearest_to_the_exact_value(value: float) -> None:
    exact = (Decimal(value) * 10**9).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)
    assert nanoseconds(value) == int(exact)


@given(st.integers(min_value=0, max_value=10**12))
def test_nanoseconds_next_to_a_tie(half: int) -> None:
    for value in (np.nextafter((half + 0.5) / 1e9, 0.0), (half + 0.5) / 1e9, np.nextafter((half + 0.5) / 1e9, 1e9)):
        exact = (Decimal(float(value)) * 10**9).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)
        assert nanoseconds(float(value)) == int(exact)
        assert scaled_run(np.array([float(value) * 1000.0]), 1.0)[0] == scaled(float(value) * 1000.0, 1.0)


@given(st.lists(st.floats(min_value=0.0, max_value=1e8), min_size=1), st.sampled_from((0.0, 0.7, 1.0, 2.5, 3.0)))
def test_many_durations_at_once_equal_one_at_a_time(raw: list[float], ratio: float) -> None:
    assert scaled_run(np.array(raw), ratio).tolist() == [scaled(value, ratio) for value in raw]


def test_scaling_rounds_twice_and_zero_means_unscaled() -> None:
    assert scaled(16.6229144639296, 1.0) == 16.622913999999998
    assert nanoseconds(seconds(16622914) / 2.5) == 6649166
    assert scaled(16.6229144639296, 2.5) == seconds(6649166) * 1000.0
    assert scaled(16.6229144639296, 0.0) == scaled(16.6229144639296, 1.0)
    assert scaled(1e-07, 1.0) == 0.0


@pytest.mark.parametrize(
    ("count", "isl", "prefix", "expected"),
    [(1, 1, 0, 16.5166038609989), (1, 8192, 0, 169.1369184042496), (2, 4096, 100, 164.73754116472958)],
)
def test_polynomial_prefill(count: int, isl: int, prefix: int, expected: float) -> None:
    assert PolynomialModel().prefill_ms(count, isl, prefix) == expected


@pytest.mark.parametrize(
    ("kv_tokens", "capacity", "expected"),
    [(8, 32, 17.63375), (23, 64, 21.825512695312504), (99, 64, 34.01), (1000, 1048576, 5.791484539435478)],
)
def test_polynomial_decode(kv_tokens: int, capacity: int, expected: float) -> None:
    assert PolynomialModel().decode_ms(1, kv_tokens, capacity) == expected


def test_profile_interpolates_and_extends_its_border_segments() -> None:
    model = ProfileModel(PROFILE)
    assert [model.prefill_ms(1, tokens, 0) for tokens in (10, 30, 60, 4)] == [3.425, 8.55, 16.8, 2.15]
    assert [model.decode_ms(1, tokens, 0) for tokens in (11, 31, 61)] == [1.0, 2.02109375, 5.360937499999999]
    assert model.decode_ms(2, 66, 0) == 4.0268749999999995


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@given(
    count=st.integers(1, 50),
    context=st.integers(1, 500),
    passes=st.integers(1, 60),
    ratio=st.sampled_from((0.0, 1.0, 3.0)),
)
def test_a_run_of_decode_times_equals_single_ones(
    model: TimingModel, count: int, context: int, passes: int, ratio: float
) -> None:
    durations = Durations(model, ratio, 0.7, 4096)
    tokens = count * context
    run = durations.decode_run_ms(count, tokens, passes).tolist()
    assert run == [durations.decode_ms(count, tokens + index * count) for index in range(passes)]


def test_means_of_a_prefill_batch_are_rounded_down() -> None:
    durations = Durations(PolynomialModel(), 1.0, 1.0, 64)
    assert durations.prefill_ms(2, 45, 30) == scaled(PolynomialModel().prefill_ms(2, 22, 15), 1.0)


def test_a_model_that_returns_nonsense_ends_the_run() -> None:
    class Broken(FixedModel):
        def prefill_ms(self, count: int, mean_isl: int, mean_prefix: int) -> float:
            return float("nan")

        def decode_run_ms(self, count: int, kv_tokens: object, capacity_tokens: int) -> np.ndarray:
            return np.array([1.0, -1.0])

    durations = Durations(Broken(1.0, 1.0), 1.0, 1.0, 64)
    with pytest.raises(ReplayError, match="invalid prefill duration of nan ms"):
        durations.prefill_ms(1, 8, 0)
    with pytest.raises(ReplayError, match=r"invalid decode duration of -1.0 ms"):
        durations.decode_run_ms(1, 8, 2)


def test_models_are_built_from_the_spec(tmp_path: Path) -> None:
    np.savez(tmp_path / "profile.npz", **PROFILE)
    assert isinstance(build_timing(PolynomialTiming(), tmp_path), PolynomialModel)
    assert build_timing(FixedTiming(prefill_ms=7.0, decode_ms=2.0), tmp_path).decode_ms(3, 9, 64) == 2.0
    external = ExternalTiming(provider="dynamo_profile", config=ProfileConfig(path="profile.npz"))
    assert build_timing(external, tmp_path).prefill_ms(1, 10, 0) == 3.425


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decode_itl": None}, "array decode_itl is missing"),
        ({"prefill_isl": np.array([8, 16, 40])}, "prefill_isl has type int64; expected float64"),
        ({"prefill_isl": np.array([8.0, 8.0, 40.0])}, "prefill_isl must be strictly ascending"),
        ({"prefill_ttft_ms": np.array([1.0])}, "prefill_ttft_ms has 1 values for 3 of prefill_isl"),
        ({"decode_itl": np.array([1.0, 2.0])}, "decode_itl has 1 dimensions; expected 2"),
        ({"decode_itl": np.ones((2, 2))}, r"decode_itl has shape \(2, 2\); its axes give \(3, 2\)"),
        ({"decode_context_length": np.array([8.0])}, "decode_context_length has 1 points"),
        ({"prefill_ttft_ms": np.array([1.0, np.nan, 2.0])}, "prefill_ttft_ms contains a value that is not finite"),
    ],
)
def test_a_bad_profile_is_refused(change: dict[str, np.ndarray | None], message: str, tmp_path: Path) -> None:
    arrays = {name: array for name, array in {**PROFILE, **change}.items() if array is not None}
    np.savez(tmp_path / "profile.npz", **arrays)
    with pytest.raises(InputError, match=message):
        ProfileModel.load(tmp_path / "profile.npz")


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("not a profile")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    np.save(tmp_path / "single.npy", np.ones(3))
    np.savez(tmp_path / "objects.npz", **{**PROFILE, "decode_itl": np.array([None, {}], object)})
    with zipfile.ZipFile(tmp_path / "texts.npz", "w") as archive:
        for name in PROFILE:
            archive.writestr(name, "no array")
    no_archive = "is not an npz archive, the file that numpy.savez writes"
    for name, message in (
        ("none.npz", "no such file; give the path of a profile relative to the spec file"),
        (".", "cannot be read: Is a directory"),
        ("text.npz", no_archive),
        ("empty.npz", no_archive),
        ("broken.npz", no_archive),
        ("single.npy", "expected an npz archive of five arrays, found a single array"),
        ("objects.npz", "decode_itl cannot be read as an array of float64; write the profile anew"),
        ("texts.npz", "prefill_isl cannot be read as an array of float64; write the profile anew"),
    ):
        with pytest.raises(InputError) as caught:
            ProfileModel.load(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {message}"
