"""`--set PATH=VALUE`."""

from __future__ import annotations

from typing import Any

import pytest

from actors.spec.overrides import apply_overrides
from messages.errors import InputError


def applied(document: dict[str, Any], *overrides: str) -> dict[str, Any]:
    apply_overrides(document, overrides)
    return document


def test_values_are_json_or_else_text() -> None:
    assert applied({}, "a=1", "b=1.5", "c=true", "d=null", 'e="1"', "f=lifo", "g=[1, 2]", "h=x=y", "i=") == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": "1",
        "f": "lifo",
        "g": [1, 2],
        "h": "x=y",
        "i": "",
    }


def test_missing_and_null_objects_are_created_on_the_way() -> None:
    assert applied({"engine": None}, "engine.rank.block_size=16") == {"engine": {"rank": {"block_size": 16}}}


def test_list_elements_are_reached_by_index() -> None:
    assert applied({"requests": [{"id": "a"}, {"id": "b"}]}, "requests.1.id=c") == {
        "requests": [{"id": "a"}, {"id": "c"}]
    }


def test_later_overrides_win() -> None:
    assert applied({}, "a.b=1", "a.b=2") == {"a": {"b": 2}}


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("a", "expected PATH=VALUE"),
        ("=1", "expected PATH=VALUE"),
        ("a..b=1", "expected PATH=VALUE"),
        ("n.x=1", "n holds 5, which has no parts"),
        ("list.2=1", "list is a list of 2; expected an index below that, got 2"),
        ("list.-1=1", "expected an index below that, got -1"),
        ("list.x.y=1", "expected an index below that, got x"),
    ],
)
def test_paths_that_lead_nowhere_are_findings(override: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        applied({"n": 5, "list": [0, 1]}, override)
    (finding,) = caught.value.findings
    assert finding.startswith(f"--set {override}: ")
    assert text in finding
