"""What tests may use of the world outside: only the environment variables AISIM_SHARED and AISIM_REFERENCE.

AISIM_SHARED: folder with the reference's tools and the real traces. AISIM_REFERENCE: a Python that has the reference
installed. Tests that need one which is not set skip, unless AISIM_REQUIRE_PARITY=1 makes them fail. Tests that need a
package of an extra skip without it, unless AISIM_REQUIRE_EXTRAS=1 makes them fail.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.parity.reference import Reference

# How long an example takes depends on what else the machine does.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("parity")
    group.addoption("--fuzz-first", type=int, default=0, help="first seed of the random parity cases")
    group.addoption("--slow", action="store_true", help="also run the tests that take minutes")
    group.addoption("--fuzz-count", type=int, default=100, help="number of random parity cases per generator")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: give --slow"))


def _outside(variable: str) -> Path:
    value = os.environ.get(variable)
    if value and Path(value).exists():
        return Path(value)
    reason = f"{variable}={value} does not exist" if value else f"{variable} is not set"
    if os.environ.get("AISIM_REQUIRE_PARITY") == "1":
        pytest.fail(f"AISIM_REQUIRE_PARITY=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the reference's tools and data."""
    return _outside("AISIM_SHARED")


@pytest.fixture(scope="session")
def traces(shared: Path) -> Path:
    """The folder with the real traces."""
    folder = shared / "data" / "traces"
    if not folder.is_dir():
        if os.environ.get("AISIM_REQUIRE_PARITY") == "1":
            pytest.fail(f"AISIM_REQUIRE_PARITY=1, but {folder} is missing")
        pytest.skip(f"{folder} is missing")
    return folder


@pytest.fixture(scope="session")
def reference(shared: Path) -> Reference:
    """The reference as a black box."""
    tools = shared / "reference"
    if str(tools) not in sys.path:
        sys.path.insert(0, str(tools))
    return Reference(_outside("AISIM_REFERENCE"), tools)


@pytest.fixture(scope="session")
def aiconfigurator() -> None:
    """The package behind the timing model "aiconfigurator" is installed."""
    if importlib.util.find_spec("aiconfigurator_core") is None:
        reason = "aiconfigurator-core is not installed (extra aiconfigurator)"
        if os.environ.get("AISIM_REQUIRE_EXTRAS") == "1":
            pytest.fail(f"AISIM_REQUIRE_EXTRAS=1, but {reason}")
        pytest.skip(reason)
