"""A carrier in the foreground. Signals are tried with the command (tests/cli/test_bridges.py)."""

from __future__ import annotations

from pathlib import Path

import penstock
from penstock.bridges.carrier import Carrier, Terms
from penstock.bridges.ends import source_of, target_of
from penstock.bridges.foreground import carry
from penstock.client.options import Options
from tests.support.brokers import serving


def test_carrier_tells_its_progress_until_it_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, penstock.sync.connect(broker.url) as connection:
        for name in ("first", "second"):
            connection.declare_queue(name)
        connection.publisher("first").send_many(b"x" for _ in range(3))
        source = source_of(f"{broker.url}?queue=first")
        target = target_of(f"{broker.url}?queue=second", source)
        carrier = Carrier(source, target, Options(source.url, {}), Options(target.url, {}), Terms(until_empty=True))
        lines: list[str] = []
        assert carry(carrier, lines.append) is False
    assert lines[0].startswith("3 messages carried, ")
    assert lines[0].endswith((" a second, moving", " a second, idle"))
