"""From a spec and measured requests to an adjustment of its timing model, and the errors before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from actors.calibration.fit import Evaluation, fit
from actors.calibration.joining import (
    Joined,
    check_counts,
    check_lengths,
    fitting_rows,
    join,
    measured_arrivals,
    turns_of,
    with_arrivals,
)
from actors.calibration.measured import read_measured, skipped_counts
from actors.calibration.statistics import Flags, Latencies, chance_error, compare, part_errors, typical_error
from actors.spec.loading import LoadedSpec
from actors.spec.paths import path_from
from actors.system import run
from actors.workload.loading import load_workload
from actors.workload.source import Turn
from engines.timing.calibration import read_calibration
from messages.calibration import CalibrationReport, ReplayErrors
from messages.errors import InputError
from messages.report import RequestRecord
from messages.spec import Adjustment, BasicTimingModel, CalibratedTiming, EngineSpec, NoScaling, ReplaySpec, RoleSpec

Progress = Callable[[int, float], None]


def calibrate(
    loaded: LoadedSpec,
    measured: Path,
    *,
    form: str = "auto",
    fit_rows: str = "even",
    arrivals: str = "auto",
    progress: Progress = lambda replays, error: None,
) -> CalibrationReport:
    """Fit the timing model of a spec to measured requests of its workload.

    form: format of the file, see `read_measured`. fit_rows: which rows are fitted, see `fitting_rows`.
    arrivals: whether requests arrive as `measured` or as the `spec` says; `auto`: as measured, where that is known.
    progress: told the number of replays and the least error in percent so far.

    Raises:
        InputError: the file, or how it fits the spec, or the timing model is not as it has to be.
        ReplayError: a replay failed.
    """
    rows, form = read_measured(measured, form)
    runs = _Runs(loaded, measured, join(measured, rows, turns_of(load_workload(*loaded))), arrivals)
    counts = runs.joined.counts
    chosen = fitting_rows(fit_rows, len(counts))
    fitted, held_out = counts & chosen, counts & ~chosen
    spread = None if fit_rows == "all" else int(held_out.sum())
    check_counts(measured, int(fitted.sum()), spread, fit_rows)

    before = runs.replay(loaded.spec)
    truth = runs.measured_latencies()
    target = truth.part(fitted)
    pass_ms = float(np.median(target[1])) if len(target[1]) else float(np.median(target[2]))

    def evaluate(adjustment: Adjustment) -> Evaluation:
        simulated = runs.latencies(runs.replay(runs.adjusted(adjustment)))
        one, other = truth.part(fitted), simulated.part(fitted)
        kind = 1 if len(one[1]) else 2
        with np.errstate(divide="ignore"):
            pace = float(np.mean(one[kind]) / np.mean(other[kind]))
        if not other[0].min() > 0.0:
            pace = 0.0
        error = typical_error(truth, simulated, fitted) if 0.0 < pace < np.inf else np.inf
        return Evaluation(error, chance_error(truth, simulated, fitted), pace)

    found = fit(evaluate, pass_ms, progress)
    after = runs.replay(runs.adjusted(found.adjust))

    def errors(records: dict[str, RequestRecord]) -> ReplayErrors:
        simulated = runs.latencies(records)
        return ReplayErrors(
            part_errors(truth, simulated, fitted),
            None if spread is None else part_errors(truth, simulated, held_out),
            compare(runs.measured_makespan(counts), runs.makespan(records, counts)),
        )

    return CalibrationReport(
        measured=str(measured),
        format=form,
        requests=len(counts),
        rows=int(counts.sum()),
        skipped=skipped_counts(rows),
        joined_by=runs.joined.joined_by,
        arrivals=runs.arrivals,
        fit=fit_rows,
        adjust=found.adjust,
        parameters=found.parameters,
        reason=found.reason,
        candidates=found.candidates,
        replays=found.replays,
        before=errors(before),
        after=errors(after),
    )


def timing_document(loaded: LoadedSpec, report: CalibrationReport, folder: Path) -> bytes:
    """The content of a file for the timing model `calibrated`, to be put into a folder: model, adjustment and fit."""
    model, base_dir = base_timing(loaded)
    document: dict[str, Any] = {"timing_model": _relocated(model, base_dir, folder)}
    document["adjust"] = report.adjust
    document["fit"] = {
        name: value for name, value in msgspec.to_builtins(report).items() if name not in ("adjust", "measured")
    }
    document["fit"]["measured"] = Path(report.measured).name
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def base_timing(loaded: LoadedSpec) -> tuple[BasicTimingModel, Path]:
    """The timing model to adjust, without the adjustment it may have, and the folder of its paths.

    Raises InputError where the pools have models of their own that differ, or a calibration cannot be read.
    """
    models = {msgspec.json.encode(rank.timing_model): rank.timing_model for rank in loaded.spec.ranks}
    if len(models) > 1:
        raise InputError("engine: the pools have different timing models; calibrate one model at a time")
    (model,) = models.values()
    base_dir = loaded.base_dir
    if isinstance(model, CalibratedTiming):
        path = base_dir / model.path
        model, base_dir = read_calibration(path).timing_model, path.parent
    return msgspec.structs.replace(model, adjust=None), base_dir


def _relocated(model: BasicTimingModel, base_dir: Path, folder: Path) -> dict[str, Any]:
    """A timing model as it reads in another folder."""
    document: dict[str, Any] = msgspec.to_builtins(model)
    holder = document.get("config", document)
    if "path" in holder:
        holder["path"] = path_from(folder, base_dir, holder["path"])
    return {name: value for name, value in document.items() if value is not None}


class _Runs:
    """Replays of one workload with different timing models, and their latencies beside the measured ones.

    Attributes:
        arrivals: `measured` or `spec`.
    """

    def __init__(self, loaded: LoadedSpec, path: Path, joined: Joined, arrivals: str) -> None:
        self._loaded = loaded
        self._path = path
        self.joined = joined
        workload = load_workload(*loaded)
        self._turns: list[Turn] = turns_of(workload)
        ids = [turn.request_id for turn in self._turns]
        if len(set(ids)) < len(ids):
            raise InputError("workload: several requests have the same id; calibrate needs one each")
        if not isinstance(loaded.spec.adapters.scaling, NoScaling):
            raise InputError("adapters.scaling: calibrate a cluster of constant size")
        known = measured_arrivals(joined, workload) if arrivals != "spec" else None
        if arrivals == "measured" and known is None:
            raise InputError(
                f"{path}: --arrivals measured needs the arrival of every request, and a workload in open loop without "
                "sessions of several turns"
            )
        self._arrivals_ms = known
        self.arrivals = "spec" if known is None else "measured"
        model, base_dir = base_timing(loaded)
        self._model = msgspec.convert(_relocated(model, base_dir, loaded.base_dir), type(model))
        self._checked = False

    def adjusted(self, adjustment: Adjustment) -> ReplaySpec:
        """The spec with its timing model adjusted."""
        timing = msgspec.structs.replace(self._model, adjust=adjustment)
        engine: EngineSpec = _with_timing(self._loaded.spec.engine, timing)
        if engine.prefill is not None:
            engine = msgspec.structs.replace(engine, prefill=_with_timing(engine.prefill, timing))
        if engine.decode is not None:
            engine = msgspec.structs.replace(engine, decode=_with_timing(engine.decode, timing))
        return msgspec.structs.replace(self._loaded.spec, engine=engine)

    def replay(self, spec: ReplaySpec) -> dict[str, RequestRecord]:
        """Replay the whole workload; return the records by request id."""
        spec = msgspec.structs.replace(spec, record_per_request=True, telemetry=None)
        workload = load_workload(spec, self._loaded.base_dir)
        if self._arrivals_ms is not None:
            workload = with_arrivals(workload, self._arrivals_ms)
        report = run(spec, self._loaded.base_dir, workload=workload)
        records = {record.request_id: record for record in report.requests or ()}
        if not self._checked:
            check_lengths(self._path, self.joined, self._turns, records)
            self._checked = True
        return records

    def latencies(self, records: dict[str, RequestRecord]) -> Latencies:
        """Simulated latencies by request, NaN for those that did not complete."""
        ttft, e2e, tokens = [], [], []
        for turn in self._turns:
            record = records.get(turn.request_id)
            done = record if record is not None and record.terminal_status == "completed" else None
            ttft.append(done.ttft_ms if done is not None else None)
            e2e.append(done.e2e_latency_ms if done is not None else None)
            tokens.append(done.output_length if done is not None else 0)
        return Latencies.of(np.array(ttft, float), np.array(e2e, float), np.array(tokens))

    def measured_latencies(self) -> Latencies:
        """Measured latencies by request, NaN for those without a row that counts."""
        rows = [row if row is not None and row.skipped is None else None for row in self.joined.requests]
        tokens = [
            (row.output_length if row.output_length is not None else turn.output_length) if row is not None else 0
            for row, turn in zip(rows, self._turns, strict=True)
        ]
        ttft = [row.ttft_ms if row is not None else np.nan for row in rows]
        e2e = [row.e2e_ms if row is not None else np.nan for row in rows]
        return Latencies.of(np.array(ttft, float), np.array(e2e, float), np.array(tokens))

    def measured_makespan(self, rows: Flags) -> float | None:
        """From the first measured arrival to the last token; None where arrivals are not known."""
        spans = [
            (row.arrival_ms, row.arrival_ms + row.e2e_ms)
            for row, counts in zip(self.joined.requests, rows, strict=True)
            if counts and row is not None and row.arrival_ms is not None
        ]
        if len(spans) < rows.sum():
            return None
        return max(end for _, end in spans) - min(start for start, _ in spans)

    def makespan(self, records: dict[str, RequestRecord], rows: Flags) -> float | None:
        """From the first simulated arrival to the last token."""
        found = [records.get(turn.request_id) for turn, counts in zip(self._turns, rows, strict=True) if counts]
        ends = [record.last_token_ms for record in found if record is not None and record.last_token_ms is not None]
        starts = [record.arrival_time_ms for record in found if record is not None]
        return max(ends) - min(starts) if ends else None


def _with_timing(engine: Any, timing: BasicTimingModel) -> Any:
    role: EngineSpec | RoleSpec = engine
    return msgspec.structs.replace(role, rank=msgspec.structs.replace(role.rank, timing_model=timing))
