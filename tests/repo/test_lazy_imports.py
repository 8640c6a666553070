"""Imports of a broker that starts: what few brokers need is loaded where it is needed, and may be absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = (
    "cryptography", "jwt", "numpy", "opentelemetry", "pandas", "psycopg", "pyarrow", "pyspark", "textual", "trustme",
    "uvloop",
)  # fmt: skip
"""Packages of the extras in pyproject.toml."""
OF_HTTP = ("prometheus_client", "starlette", "uvicorn")
OF_REMOTE_LOGINS = ("http.client", "urllib.request")
OF_FEW = ("bz2", "fractions", "gzip", "lzma", "shutil", "tempfile", "tomllib")
"""Modules of the standard library for settings files, tables on terminals, compressed logs and repairs."""
MODULES = 710
"""Most modules of a broker with a store that has served nothing yet; 690 in Python 3.11."""
SERVE = """
import asyncio, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Absent())
import penstock
from penstock.settings.config import Settings

async def serve():
    async with penstock.Broker("127.0.0.1:0", http={http!r}, data={data!r}) as broker:
        before = set(sys.modules)
        for address in broker.http_addresses:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
            assert await reader.readline() == b"HTTP/1.1 200 OK\\r\\n"
            writer.close()
        print(*before)
        print(*sys.modules)

asyncio.run(serve())
"""


def modules_of_a_broker(http: str | None, data: str | None) -> list[set[str]]:
    """Return the modules that a broker has imported which serves where no extra is installed, and after a request."""
    code = SERVE.format(absent=EXTRAS, http=http, data=data)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("stored", [False, True])
def test_broker_without_http_serves_without_extras_and_without_its_libraries(stored: bool, tmp_path: object) -> None:
    for modules in modules_of_a_broker(None, str(tmp_path) if stored else None):
        assert "penstock.server.server" in modules
        assert not modules & {*OF_HTTP, *OF_REMOTE_LOGINS, *OF_FEW}
        assert len(modules) <= MODULES


def test_broker_with_http_loads_its_libraries_with_the_first_request() -> None:
    before, after = modules_of_a_broker("127.0.0.1:0", None)
    assert not before & {*OF_HTTP}
    assert {*OF_HTTP} <= after
