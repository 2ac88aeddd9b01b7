"""Pages in a real browser: the system's Chromium, without a window.

Tests that need it skip where it is missing, unless AISIM_REQUIRE_BROWSER=1 makes them fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MOST_MS = 60_000


@dataclass(frozen=True)
class OpenedPage:
    """A file in the browser. console: messages and errors of the page. fetched: addresses that it asked for."""

    page: Page
    console: list[str]
    fetched: list[str]


OpenPage = Callable[..., OpenedPage]


def _missing(reason: str) -> None:
    if os.environ.get("AISIM_REQUIRE_BROWSER") == "1":
        pytest.fail(f"AISIM_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A running browser. It ends with the module, since its event loop would be in the way of other tests'."""
    executable = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if executable is None:
        _missing(f"none of {', '.join(CHROMIUM_NAMES)} is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[OpenPage]:
    """A function that opens a file: `browser(path, width=1280, height=900, dark=False, **context)`."""
    contexts = []

    def open_page(
        path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, **options: Any
    ) -> OpenedPage:
        scheme = "dark" if dark else "light"
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        contexts.append(context)
        context.set_default_timeout(MOST_MS)
        page = context.new_page()
        opened = OpenedPage(page, [], [])
        page.on("console", lambda message: opened.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: opened.console.append(f"error: {error}"))
        page.on("request", lambda request: opened.fetched.append(request.url))
        page.goto(path.resolve().as_uri(), timeout=MOST_MS)
        return opened

    yield open_page
    for context in contexts:
        context.close()
