"""Imports of the client: modules that the first message does not need are imported later (10 to 100 ms each)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.client.conversations import PROTOCOLS, both_protocols, fresh, url_of

BLOCKING = """
import sys
before = set(sys.modules)
import penstock.sync
with penstock.sync.connect({url!r}) as connection:
    connection.declare_queue({queue!r}, exclusive=True)
    connection.publisher({queue!r}).send(b"first")
print(*(set(sys.modules) - before))
"""
ASYNCHRONOUS = """
import asyncio, sys
before = set(sys.modules)
import penstock
async def main():
    async with penstock.connect({url!r}) as connection:
        await connection.declare_queue({queue!r}, exclusive=True)
        await connection.publisher({queue!r}).send(b"first")
asyncio.run(main())
print(*(set(sys.modules) - before))
"""
SLOW = {
    "ssl",
    "logging",
    "logging.config",
    "json",
    "pathlib",
    "dataclasses",
    "fractions",
    "random",
    "secrets",
    "decimal",
    "hmac",
} | {
    "typing_extensions",
    "inspect",
    "ipaddress",
    "urllib.parse",
    "encodings.idna",
}
"""Modules of the standard library that a first message does not need."""
NEEDED: dict[str, set[str]] = {"amqp091": {"json", "decimal"}, "amqp10": set()}
"""Those that a protocol needs all the same: over 0-9-1 a publisher begins its lane by a control operation, and tables
have decimals."""
UNUSED = {"control", "connection", "channel", "publisher", "stream"}
"""Modules of `penstock.client` that it does not need."""
MOST = {"amqp091": 63, "amqp10": 83}
"""Most modules of the package that a protocol and a shell need."""


def imported(program: str, url: str, protocol: str) -> set[str]:
    """Return the modules that a program has imported in a process of its own, `penstock` without its name."""
    text = program.format(url=url_of(url, protocol), queue=fresh())
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@both_protocols
@pytest.mark.parametrize(
    ("program", "slow"),
    [(BLOCKING, SLOW | {"asyncio"}), (ASYNCHRONOUS, SLOW - {"ssl", "logging", "inspect"})],  # asyncio imports those.
    ids=["blocking", "asyncio"],
)
def test_first_message_imports_no_other_protocol_and_no_slow_module(
    broker_url: str, protocol: str, program: str, slow: set[str]
) -> None:
    found = imported(program, broker_url, protocol)
    assert found & slow <= NEEDED[protocol]
    if program == BLOCKING:
        assert found & {f"penstock.client.{name}" for name in UNUSED} == set()
    (other,) = set(PROTOCOLS) - {protocol}
    kinds = {"penstock.settings", "penstock.settings.kind", "penstock.settings.lengths"}
    others = (f"penstock.wire.{other}", "penstock.settings")
    assert [name for name in found - kinds if name.startswith(others)] == []
    assert len([name for name in found if name.startswith("penstock")]) <= MOST[protocol]
