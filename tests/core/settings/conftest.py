"""The scene of most tests of settings."""

from __future__ import annotations

import pytest

from tests.support.settings_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
