"""Limits on the disk, by our names and by those of other brokers."""

from __future__ import annotations

import pytest

from penstock.core.settings.limits import DiskLimits
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.durable_broker import Kept


def limits(scope: str, **settings: object) -> DiskLimits:
    house = Kept()
    name = "/" if scope == "vhost" else ""
    at_once.set_settings(house.broker, scope, name, read_settings(scope, name, settings))
    return house.broker.table.limits(scope, name).disk


@pytest.mark.parametrize(
    ("scope", "settings", "overfull", "underfull"),
    [
        ("broker", {"disk-overfull": "1MiB"}, 1 << 20, (1 << 20) * 9 // 10),
        ("broker", {"disk-overfull": 1000, "disk-underfull": 1000}, 1000, 1000),
        ("vhost", {"disk-overfull": 1000, "disk-underfull": "none"}, 1000, 900),
        ("vhost", {"storeOverfullSize": 1000, "storeUnderfullSize": 0}, 1000, 900),
        ("vhost", {"storeOverfullSize": 0}, UNLIMITED, UNLIMITED),
        ("vhost", {"overfull-size": 50000000, "underfull-size": 45000000}, 50000000, 45000000),
        ("broker", {"overfull-size": 1000, "underfull-size": 0}, 1000, 900),
        ("broker", {"overfull-size": 0}, UNLIMITED, UNLIMITED),
        ("broker", {"disk-overfull": "none"}, UNLIMITED, UNLIMITED),
    ],
)
def test_quotas(scope: str, settings: dict[str, object], overfull: int, underfull: int) -> None:
    found = limits(scope, **settings)
    assert (found.overfull, found.underfull) == (overfull, underfull)


@pytest.mark.parametrize(
    ("settings", "free_bytes", "percent"),
    [
        ({"min-disk-free": "2GiB"}, 2 << 30, 0.0),
        ({"min-disk-free": "5%"}, 0, 5.0),
        ({"min-disk-free": "none"}, 0, 0.0),
        ({"max-disk-usage": 90}, 0, 10.0),
        ({"max-disk-usage": -1}, 0, 0.0),
        ({"max-disk-usage": 100}, 0, 0.0),
        ({"store.filesystem.maxUsagePercent": 0}, 0, 0.0),
        ({"disk_free_limit": "2GB"}, 2_000_000_000, 0.0),
        ({"disk_free_limit.absolute": 1000}, 1000, 0.0),
    ],
)
def test_room(settings: dict[str, object], free_bytes: int, percent: float) -> None:
    found = limits("broker", **settings)
    assert (found.free_bytes, found.free_percent) == (free_bytes, percent)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"disk-overfull": 100, "disk-underfull": 200},
            "broker: disk-underfull=200 (broker, set by command) is above disk-overfull=100 (broker, set by command); "
            "its gate would close and open at once",
        ),
        (
            {"disk-underfull": 5},
            "broker: disk-underfull=5 (broker, set by command) needs disk-overfull, which is not set",
        ),
        (
            {"disk-overfull": 0},
            "broker: disk-overfull must be bytes from 1 (such as 64MiB), or none, not 0; 0 would stop everything for "
            "ever; use none for no quota",
        ),
        (
            {"disk-underfull": 0},
            "broker: disk-underfull must be bytes from 1 (such as 64MiB), or none, not 0; 0 would stop everything for "
            "ever; use none for no quota",
        ),
        (
            {"min-disk-free": "120%"},
            "broker: min-disk-free must be bytes from 0 (such as 64MiB), or none, or 1% to 100% of the file system, "
            "not '120%'",
        ),
        (
            {"min-disk-free": "much"},
            "broker: min-disk-free must be bytes from 0 (such as 64MiB), or none, or 1% to 100% of the file system, "
            "not 'much'",
        ),
        ({"disk-overful": 5}, "scope broker has no setting 'disk-overful'; did you mean disk-overfull?"),
    ],
)
def test_invalid_disk_limit_is_refused_with_a_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        limits("broker", **settings)
    assert str(refused.value) == sentence
