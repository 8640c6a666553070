"""A PostgreSQL store whose server goes away and comes back: committed records stay."""

from __future__ import annotations

import pytest

from penstock.errors import StoreError
from penstock.store.postgres import postgres_store
from tests.support.brokers import eventually
from tests.support.postgres import Cluster, needs_postgres
from tests.support.store_engines import PostgresEngine
from tests.support.store_writers import assert_state_of, writing

pytestmark = needs_postgres


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_server_that_goes_away_and_comes_back_has_all_that_was_committed(
    cluster: Cluster, engine: PostgresEngine, mode: str
) -> None:
    with writing(engine.url) as writer:
        for _ in range(2):
            writer.await_commits(5)
            cluster.stop(mode)
            failed = len(writer.events("failed"))
            eventually(lambda before=failed: len(writer.events("failed")) > before, "a commit that failed")
            cluster.start()
            writer.await_commits(2)
        last = writer.committed()
        assert writer.events("lost") == []
    assert_state_of(engine.contents(), last, writer.committed() + 1)


def test_unreachable_server_is_named_with_advice(cluster: Cluster, engine: PostgresEngine) -> None:
    cluster.stop()
    store = postgres_store(cluster.url(user="locked:secret", tcp=True))
    with pytest.raises(StoreError) as raised:
        store.open()
    cluster.start()
    assert str(raised.value) == (
        f"cannot reach the store in database 'postgres' at '127.0.0.1', port {cluster.port}: Connection refused; "
        "is the server running there?"
    )


def test_server_that_does_not_synchronise_files_is_warned_of(
    cluster: Cluster, engine: PostgresEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.contents()
    assert caplog.messages == []
    cluster.ask("ALTER SYSTEM SET fsync = off")
    cluster.stop()
    cluster.start()
    engine.contents()
    cluster.ask("ALTER SYSTEM RESET fsync")
    cluster.stop()
    cluster.start()
    (said,) = {*caplog.messages}
    assert said.endswith("has fsync off: what is confirmed may be lost in a power failure")
