"""Libraries that only some predictors need."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from messages.errors import InputError


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the warnings of a library to itself: short or flat series are nothing that a user could do about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load_extra(module: str, extra: str) -> Any:
    """Import a module; raises InputError that names the extra to install if it is not there."""
    try:
        with quiet():
            return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f'load_predictor: "{extra}" needs {module}, which is not installed: pip install "aisim-actors[{extra}]", '
            'or choose "constant" or "kalman"'
        ) from None
