"""`timing show` and `timing check`: what the timing models of a spec give, and how far they can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.cli import SUCCESS, say
from actors.commands.options import Overrides

if TYPE_CHECKING:
    from actors.spec.loading import LoadedSpec
    from engines.timing.table import Prediction
    from messages.spec import AiconfiguratorTiming, BasicTimingModel, RankSpec

timing_app = typer.Typer(help="Show and check the step times that a spec or a table stands for.")

_PREFILLS = ((128, 0), (512, 0), (2048, 0), (8192, 0), (2048, 8192))
_BATCHES = (1, 8, 32, 128, 256)
_CONTEXTS = (256, 1024, 4096, 16384)
_SAMPLES = 200


@timing_app.callback(invoke_without_command=True)
def _about(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        print(context.get_help())
    return SUCCESS


@timing_app.command("show")
def show_timing(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="JSON file that describes a replay.")],
    overrides: Overrides = None,
) -> int:
    """Print where the KV blocks come from, and times of typical passes (raw, before speed-up ratios)."""
    from actors.spec.deployments import capacity_notes
    from actors.spec.loading import load_spec

    loaded = load_spec(spec, overrides or ())
    for note in capacity_notes(*loaded):
        print(note)
    for name, rank in _ranks(loaded):
        print(f"{name}:")
        _show_rank(rank, loaded.base_dir)
    return SUCCESS


@timing_app.command("check")
def check_timing(
    file: Annotated[
        Path, typer.Argument(metavar="SPEC_OR_TABLE", help="JSON file of a replay, or a CSV or JSON table of passes.")
    ],
    overrides: Overrides = None,
) -> int:
    """Print the leave-one-out error of tables and the interpolation error of aiconfigurator models."""
    from messages.errors import InputError

    if _is_table(file):
        if overrides:
            raise InputError(f"--set: {file} is a table, which has no settings")
        _check_table(file)
        return SUCCESS
    from actors.spec.loading import load_spec
    from messages.spec import AiconfiguratorTiming, TableTiming

    loaded = load_spec(file, overrides or ())
    checked = False
    for name, rank in _ranks(loaded):
        model, folder = _basic_model(rank, loaded.base_dir)
        if isinstance(model, TableTiming):
            print(f"{name}:")
            _check_table(folder / model.path)
            checked = True
        elif isinstance(model, AiconfiguratorTiming):
            print(f"{name}:")
            _check_aiconfigurator(model)
            checked = True
    if not checked:
        say("note", f"{file}: its timing models are formulas or a profile, of which nothing can be checked")
    return SUCCESS


def _ranks(loaded: LoadedSpec) -> list[tuple[str, RankSpec]]:
    names = ("workers",) if len(loaded.spec.ranks) == 1 else ("prefill", "decode")
    return list(zip(names, loaded.spec.ranks, strict=True))


def _basic_model(rank: RankSpec, base_dir: Path) -> tuple[BasicTimingModel, Path]:
    """The timing model of a rank, of a calibration the one that it adjusts, and the folder of its paths."""
    from engines.timing.calibration import read_calibration
    from messages.spec import CalibratedTiming

    model = rank.timing_model
    if isinstance(model, CalibratedTiming):
        path = base_dir / model.path
        return read_calibration(path).timing_model, path.parent
    return model, base_dir


def _is_table(file: Path) -> bool:
    """Whether a file is a table rather than a spec, as far as that can be told."""
    import json

    if file.suffix.lower() != ".json":
        return True
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "passes" in document and "topology" not in document


def _show_rank(rank: RankSpec, base_dir: Path) -> None:
    from engines.timing.adjusted import added_prefill_ms
    from engines.timing.model import build_timing
    from engines.timing.sums import NO_DECODE, DecodeSums, PrefillSums

    model = build_timing(rank.timing_model, base_dir)
    capacity = rank.num_gpu_blocks * rank.tokens_per_block
    print("  prefill of one prompt: new tokens, known tokens, ms")
    for tokens, known in _PREFILLS:
        time_ms = added_prefill_ms(model, PrefillSums(1, known + tokens, known), NO_DECODE, 0.0, capacity)
        print(f"  {tokens:>8} {known:>8} {time_ms:>10.3f}")
    print("  decode: requests, then ms with a mean context of " + ", ".join(map(str, _CONTEXTS)) + " tokens")
    for count in _BATCHES:
        times = [model.decode_ms(count, count * context, capacity) for context in _CONTEXTS]
        print(f"  {count:>8} " + " ".join(f"{time_ms:>10.3f}" for time_ms in times))
    decode = DecodeSums(32, 32 * 1024)
    decode_ms = model.decode_ms(*decode, capacity)
    whole_ms = decode_ms + added_prefill_ms(model, PrefillSums(1, 2048, 0), decode, decode_ms, capacity)
    print(f"  2048 new tokens beside 32 requests with 1024 tokens each: {whole_ms:.3f}")


def _check_table(path: Path) -> None:
    from engines.timing.table import TableModel, leave_one_out
    from engines.timing.table_file import read_table

    passes = read_table(path)
    model = TableModel(passes, str(path))
    print(f"{path}: {len(passes)} passes")
    for label, (low, high) in (
        ("prefill_tokens", model.prefill.x_range),
        ("prefill_kv_tokens", model.prefill.y_range),
        ("decode_requests", model.decode.y_range),
        ("decode_kv_tokens / decode_requests", model.decode.x_range),
    ):
        print(f"  {label:<34} {low:g} to {high:g}")
    print(f"  overlap of prefill and decode      {model.overlap:.3f}")
    print("leave-one-out error, each pass predicted from the others:")
    groups: dict[tuple[str, bool], list[Prediction]] = {}
    for prediction in leave_one_out(passes):
        groups.setdefault((prediction.kind, prediction.outside), []).append(prediction)
    if not groups:
        print("  too few passes")
    for (kind, outside), predictions in groups.items():
        worst = max(predictions, key=lambda prediction: abs(prediction.error))
        mean = sum(abs(prediction.error) for prediction in predictions) / len(predictions)
        where = "beyond the others" if outside else "among the others"
        print(
            f"  {kind:<8}{where:<18} {len(predictions):>5} passes, mean {mean:7.2%}, worst {worst.error:+8.2%} "
            f"({worst.measured.where}: measured {worst.measured.ms:g} ms, predicted {worst.predicted_ms:.4g})"
        )


def _check_aiconfigurator(timing: AiconfiguratorTiming) -> None:
    from engines.timing.aiconfigurator import AiconfiguratorModel
    from engines.timing.contexts import TOLERANCE

    model = AiconfiguratorModel(timing)
    print(f"  {model.deployment.label}")
    print(f"  decode times by requests and mean context, interpolated to {TOLERANCE:.2%}; {_SAMPLES} contexts each:")
    # Contexts spread evenly over their logarithm, the same in every run.
    contexts = sorted({round(4.0 * (32768.0 / 4.0) ** (index / (_SAMPLES - 1))) for index in range(_SAMPLES)})
    for count in _BATCHES:
        errors = []
        for context in contexts:
            exact = model.exact_decode_ms(count, context)
            errors.append(abs(model.decode_ms(count, count * context, 0) / exact - 1.0))
        print(f"  {count:>8} requests: mean error {sum(errors) / len(errors):.4%}, largest {max(errors):.4%}")
