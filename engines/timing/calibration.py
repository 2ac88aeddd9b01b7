"""Files that hold a timing model together with what was fitted to measurements."""

from __future__ import annotations

from pathlib import Path

import msgspec

from messages.errors import InputError
from messages.spec import Adjustment, BasicTimingModel


class Calibration(msgspec.Struct, frozen=True):
    """The part of a calibration that a run needs; what else the file tells of the fit is for its readers.

    timing_model: paths in it are relative to the file. adjust: what is done to its times.
    """

    timing_model: BasicTimingModel
    adjust: Adjustment = Adjustment()


def read_calibration(path: Path) -> Calibration:
    """Read a file of the timing model "calibrated".

    Raises:
        InputError: it cannot be read, or is not such a file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Calibration)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of a calibration relative to the spec file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not a calibration: {error}") from None
