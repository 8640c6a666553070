"""A PostgreSQL store that an older Penstock wrote is opened with all that is in it.

The dump is of 2026-11-22, of a store with schema 2; tests/support/old_store.py says how it was made.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.store.postgres import schema
from tests.server.test_upgrade import check_messages
from tests.support.brokers import serving, some_name
from tests.support.commands import listed
from tests.support.postgres import PROGRAMS, Cluster, needs_postgres

DUMP = Path(__file__).with_name("schema-2.dump")


@needs_postgres
def test_store_of_an_older_version_is_opened_with_all_records(cluster: Cluster, tmp_path: Path) -> None:
    assert PROGRAMS is not None
    database = some_name("upgrade")
    cluster.ask(f'CREATE DATABASE "{database}"')
    restore = [PROGRAMS / "pg_restore", "--no-owner", f"--dbname={cluster.url(database)}", DUMP]
    subprocess.run(restore, check=True, timeout=60)
    form = "SELECT value FROM penstock.about WHERE name = 'form'"
    assert cluster.ask(form, database=database) == [("2",)]
    with serving(tmp_path, "--store", cluster.url(database)) as broker:
        assert {each["name"] for each in listed(broker, "vhosts")} == {"/", "eu"}
        check_messages(broker)
        assert broker.stop() == 0
    assert cluster.ask(form, database=database) == [(str(len(schema.MIGRATIONS)),)]
