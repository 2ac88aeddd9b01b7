"""Ctrl-C that waits for a good moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def noted_interrupts(note: Callable[[], None]) -> Iterator[None]:
    """Have the first Ctrl-C only call `note`; a second one gets through at once.

    In another thread than the main one, and where somebody else handles the signal, nothing changes.
    """

    def handle(signal_number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        note()

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
