"""Random interleavings (tests/support/interleavings.py): no outcome and no wake-up is lost, reservations stay exact.

`PENSTOCK_INTERLEAVINGS` is their number.
"""

from __future__ import annotations

import os

import pytest

from tests.support.interleavings import run_worlds

COUNT = int(os.environ.get("PENSTOCK_INTERLEAVINGS", "6000"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_outcomes_and_wakeups_survive_any_interleaving(part: int) -> None:
    done = run_worlds(part * 1_000_000, COUNT // PARTS)
    assert done["interleavings"] >= COUNT // PARTS
    assert min(done["confirmed"], done["refused"], done["send"], done["take"]) > 0
