"""The library that only calibration needs."""

from __future__ import annotations

import importlib
from typing import Any

from messages.errors import InputError


def load_scipy() -> Any:
    """Import scipy.optimize; raises InputError that names the extra to install if it is not there."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError:
        raise InputError(
            "calibrate needs scipy, which is not installed: pip install 'aisim-actors[calibrate]'"
        ) from None
