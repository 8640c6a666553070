"""A store in PostgreSQL by TLS: `sslmode` and the files of libpq in the URL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.store.postgres import postgres_store
from tests.support.brokers import eventually
from tests.support.certificates import Authority
from tests.support.postgres import Cluster, needs_postgres

pytestmark = needs_postgres


@pytest.fixture
def authority(cluster: Cluster, tmp_path: Path) -> Iterator[Authority]:
    """Have the server serve TLS with a certificate for 127.0.0.1, and no more at the end."""
    authority = Authority(tmp_path)
    certificate = authority.issue("db", "127.0.0.1")
    owner = cluster.data.stat()
    for source, name in ((certificate, "server.crt"), (authority.key("db"), "server.key")):
        place = cluster.data / name
        shutil.copy(source, place)
        place.chmod(0o600)
        os.chown(place, owner.st_uid, owner.st_gid)
    cluster.ask("ALTER SYSTEM SET ssl = on")
    cluster.ask("SELECT pg_reload_conf()")
    eventually(lambda: cluster.ask("SHOW ssl") == [("on",)], "TLS of the server")
    yield authority
    cluster.ask("ALTER SYSTEM RESET ssl")
    cluster.ask("SELECT pg_reload_conf()")


def test_store_is_opened_by_tls_only_with_a_verified_server(
    cluster: Cluster, authority: Authority, tmp_path: Path
) -> None:
    url = cluster.url(tcp=True, schema="by_tls", sslmode="verify-full", sslrootcert=str(authority.ca))
    store = postgres_store(url)
    store.open()
    assert store._session.ask("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [
        (True, "TLSv1.3")
    ]
    store.close()
    other = tmp_path / "other"
    other.mkdir()
    stranger = cluster.url(tcp=True, schema="by_tls", sslmode="verify-ca", sslrootcert=str(Authority(other).ca))
    with pytest.raises(StoreError, match="certificate verify failed"):
        postgres_store(stranger).open()
