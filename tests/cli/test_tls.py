"""`penstock tls self-signed`; tests/server/tls/test_contexts_served.py tests the reload."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import replace
from pathlib import Path

import penstock
import penstock.sync
from penstock.client.tls import tls_context
from penstock.settings.config import load
from tests.support.brokers import penstock_command


async def test_certificates_for_development_serve_and_are_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    words = ("tls", "self-signed", str(folder), "--name", "shop.example.org", "--user", "ada")
    done = await asyncio.to_thread(penstock_command, *words)
    assert done.returncode == 0, done.stderr
    assert f"penstock serve --config {folder}/penstock.toml" in done.stdout
    assert stat.S_IMODE((folder / "server-key.pem").stat().st_mode) == 0o600
    context = tls_context(str(folder / "ca.pem"), str(folder / "client.pem"), str(folder / "client-key.pem"))
    settings = replace(load(folder / "penstock.toml"), listen=[], listen_tls=["127.0.0.1:0"])
    async with penstock.Broker(settings=settings) as broker:
        for host in ("localhost", "127.0.0.1"):
            url = f"amqps://{host}:{broker.tls_addresses[0][1]}"
            connection = await asyncio.to_thread(penstock.sync.connect, url, tls=context)
            await asyncio.to_thread(connection.close)
    again = await asyncio.to_thread(penstock_command, "tls", "self-signed", str(folder))
    assert (again.returncode, "ca.pem' is there already: give an empty directory" in again.stderr) == (1, True)


def test_unwritable_directory_for_certificates_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = penstock_command("tls", "self-signed", str(file / "below"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot write to" in done.stderr
    long = str(tmp_path / ("x" * 300))
    done = penstock_command("tls", "self-signed", long)
    assert (done.returncode, done.stderr) == (1, f"penstock: cannot use '{long}/ca.pem': File name too long\n")
