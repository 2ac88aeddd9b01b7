"""From the runs to the comparison, with the reasons why they may not be comparable."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from actors.comparison.bounds import Bound
from actors.comparison.inputs import RunInput, same_place
from actors.comparison.join import join_requests
from actors.comparison.metrics import compare_metrics
from actors.comparison.specs import WORKLOAD_FIELDS, spec_differences, top_field
from actors.reporting.table import shortfall_text
from messages.comparison import BoundCheck, Comparison, Join, SpecDifference

_SLA = "sla"
_MOST_FIELDS = 4
_CLOSED_LOOP = "max_in_flight"


def compare(runs: Sequence[RunInput], bounds: Sequence[Bound] = ()) -> Comparison:
    """Compare runs with the first of them."""
    first, *others = runs
    labels = [run.label for run in runs]
    differences = None
    if sum(run.spec is not None for run in runs) >= 2:
        differences = spec_differences([run.spec for run in runs], labels)
    joins = [join for other in others if (join := _join(first, other)) is not None]
    other_sla = [
        run.label
        for run in others
        if run.spec is not None and first.spec is not None and run.spec.get(_SLA) != first.spec.get(_SLA)
    ]
    return Comparison(
        runs=[run.described() for run in runs],
        warnings=_warnings(runs, differences or [], joins, other_sla),
        metrics=compare_metrics([run.figures for run in runs], labels, other_sla),
        spec_differences=differences,
        joins=joins,
        bounds=_checks(runs, bounds),
    )


def comparison_bytes(comparison: Comparison) -> bytes:
    """Return the content of `comparison.json`: one indented JSON object with a final newline."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2) + b"\n"


def _join(first: RunInput, other: RunInput) -> Join | None:
    if first.records is None or other.records is None:
        return None
    closed_loop = any((run.spec or {}).get(_CLOSED_LOOP) is not None for run in (first, other))
    return join_requests(other.label, first.records, other.records, fixed_arrivals=not closed_loop)


def _checks(runs: Sequence[RunInput], bounds: Sequence[Bound]) -> list[BoundCheck]:
    first, *others = runs
    return [
        bound.check(run.label, first.figures.get(bound.key), run.figures.get(bound.key), first.label)
        for bound in bounds
        for run in others
    ]


def _warnings(
    runs: Sequence[RunInput], differences: Sequence[SpecDifference], joins: Sequence[Join], other_sla: Collection[str]
) -> list[str]:
    first, *others = runs
    warnings = [warning for run in runs for warning in _about_itself(run)]
    by_run = {join.run: join for join in joins}
    for run in others:
        pair = f"{run.label} and {first.label}"
        if same_place(first, run):
            warnings.append(f"{pair} are the same {'file' if run.path.is_file() else 'directory'}")
            continue
        index = runs.index(run)
        fields = [
            difference.path
            for difference in differences
            if run.spec is not None
            and first.spec is not None
            and top_field(difference) in WORKLOAD_FIELDS
            and _differ(difference, 0, index, runs)
        ]
        if fields:
            warnings.append(f"{pair} have different workloads: their specs differ in {_listed(fields)}")
        counts = [one.figures["num_requests"] for one in (run, first)]
        if run.label not in by_run and counts[0] != counts[1]:
            warnings.append(f"{pair} have different workloads: {counts[0]} and {counts[1]} requests")
        if run.label in by_run:
            warnings += [f"{pair} have different requests: {text}" for text in _traffic(by_run[run.label], first.label)]
        if run.label in other_sla:
            warnings.append(f"{pair} have different SLAs, so that their goodput cannot be compared")
    return warnings


def _about_itself(run: RunInput) -> list[str]:
    warnings = []
    total, completed = run.figures.get("num_requests"), run.figures.get("completed_requests")
    if total != completed:
        causes = "; ".join(map(shortfall_text, run.shortfalls))
        warnings.append(
            f"{run.label} ({run.path}) is not complete: {completed} of {total} requests completed, and its figures are "
            f"of those" + (f"; {causes}" if causes else "")
        )
    missing = [name for name, part in (("spec", run.spec), ("requests", run.records)) if part is None]
    if missing:
        warnings.append(f"{run.label} ({run.path}) has no record of its {' and '.join(missing)} to compare")
    return warnings


def _differ(difference: SpecDifference, first: int, other: int, runs: Sequence[RunInput]) -> bool:
    missing = [run.label in difference.missing for run in (runs[first], runs[other])]
    return difference.values[first] != difference.values[other] or missing[0] != missing[1]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_FIELDS
    return ", ".join(names[:_MOST_FIELDS]) + (f" and {more} more" if more > 0 else "")


def _traffic(join: Join, first: str) -> list[str]:
    counted = {
        f"{join.other_lengths:,} of {join.matched:,} have other lengths": join.other_lengths,
        f"{join.other_arrivals:,} of {join.matched:,} arrive at other times": join.other_arrivals,
        f"{join.only_first:,} only in {first}": join.only_first,
        f"{join.only_other:,} only in {join.run}": join.only_other,
    }
    texts = [text for text, count in counted.items() if count]
    return [", ".join(texts)] if texts else []
