"""The base of every part of a document, and its types of numbers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

LARGEST = 2**63 - 1

Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Seed = Annotated[int, Meta(ge=0)]
NonNegative = Annotated[float, Meta(ge=0.0)]
AbovePositive = Annotated[float, Meta(gt=0.0)]
TokenId = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Strict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a document: unknown keys are refused."""
