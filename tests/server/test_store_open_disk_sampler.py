"""Times at which the disk usage of a store is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.server import store_open
from penstock.server.store_open import IDLE_S, LOOK_S, PART, SHORT_S, DiskSampler
from tests.support.open_stores import opened


class Clock:
    """Seconds that only a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(store_open, "time", found)
    return found


def test_disk_sampler_measures_after_a_time_far_from_a_threshold(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path) as store:
        sampler = DiskSampler(store)
        sampler.left = 1 << 40
        found = sampler.sample()
        assert found == store.usage()._replace(free=found.free), "others write to the disk, too"
        assert sampler.wrote(1000) is None
        clock.now += LOOK_S
        assert sampler.wrote(1000) is not None
        assert sampler.wrote(1000) is None


def test_disk_sampler_measures_when_a_part_of_the_free_space_was_written(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path) as store:
        sampler = DiskSampler(store)
        sampler.left = 10_000
        sampler.sample()
        assert sampler.wrote(10_000 // PART - 1) is None
        assert sampler.wrote(1) is not None


def test_disk_sampler_is_less_patient_while_a_disk_gate_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        sampler = DiskSampler(store)
        assert sampler.patience_s() == IDLE_S
        sampler.short = True
        assert sampler.patience_s() == SHORT_S
