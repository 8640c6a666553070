"""A checkpoint whose cursor is gone: a new queue of the old name loses no message unread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.errors import CursorError
from tests.spark.conftest import close_links, running, until
from tests.support.spark_readers import ALL, bodies, numbered, stopped_readers

GONE = (
    r"cursor 'billing', with which the checkpoint has read 'orders' up to 3, does not exist at {}: it was deleted, has "
)


@pytest.fixture
def read_up_to_3() -> Iterator[tuple[Any, dict[str, Any], Callable[..., Any]]]:
    """A broker without a store whose queue was read up to 3; begun anew, the queue of that name has 5 others."""
    with running() as broker, stopped_readers() as make:
        broker.declare(name="orders")
        broker.publish("orders", numbered(3))
        reader = make(broker, subscribe="orders", cursor="billing")
        end = reader.latestOffset(reader.initialOffset(), ALL)
        assert reader.latestOffset(end, ALL) == end
    with running(broker.address) as broker, stopped_readers() as make:
        broker.declare(name="orders")
        broker.publish("orders", numbered(10, 15))
        yield broker, end, make
        close_links()


@pytest.mark.parametrize("cursor", ["billing", "renamed"])
def test_checkpoint_of_a_lost_cursor_is_refused_and_settles_nothing(read_up_to_3, cursor):
    broker, end, open_reader = read_up_to_3
    for _ in range(2):
        with pytest.raises(CursorError, match=GONE.format(broker.address)):
            open_reader(broker, subscribe="orders", cursor=cursor).latestOffset(end, ALL)
    assert broker.depth("orders") == 5
    assert broker.control("list", kind="cursors")["items"] == []


def test_batch_of_a_lost_cursor_is_not_replayed(read_up_to_3):
    broker, end, open_reader = read_up_to_3
    with pytest.raises(CursorError, match=GONE.format(broker.address)):
        open_reader(broker, subscribe="orders", cursor="billing").partitions({"v": 1, "q": {"orders": 0}}, end)


def test_checkpoint_of_a_lost_cursor_continues_on_request_with_a_warning(read_up_to_3, caplog):
    broker, end, open_reader = read_up_to_3
    reader = open_reader(broker, subscribe="orders", cursor="billing", failOnDataLoss="false")
    assert bodies(reader, end, reader.latestOffset(end, ALL)) == numbered(13, 15)
    assert caplog.text.count("up to 3, does not exist at") == 1
    assert "continuing after that position" in caplog.text


def test_cursor_that_was_renamed_continues_without_a_warning(broker, queue, open_reader, caplog):
    broker.publish(queue, numbered(6))
    former = open_reader(broker, subscribe=queue, cursor=f"former-{queue}")
    end = former.latestOffset(former.initialOffset(), ReadMaxRows(4))
    former.stop()
    renamed = open_reader(broker, subscribe=queue, cursor=f"renamed-{queue}")
    assert bodies(renamed, end, renamed.latestOffset(end, ALL)) == numbered(4, 6)
    assert "does not exist" not in caplog.text


def read_until_expired(broker: Any, make: Callable[..., Any], **fields: object) -> dict[str, Any]:
    """Read up to 3 of 5 messages, stop the query, and wait until its cursor has expired."""
    broker.declare(name="orders", cursor_expires=1, **fields)
    broker.publish("orders", numbered(5), persistent=True)
    reader = make(broker, subscribe="orders", cursor="billing")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(3))
    assert reader.latestOffset(end, ReadMaxRows(3)) != end
    reader.stop()
    until(lambda: not broker.control("list", kind="cursors")["items"], "the cursor has expired")
    return end


@pytest.mark.slow
def test_checkpoint_of_an_expired_cursor_is_refused_with_the_expiry():
    with running() as broker, stopped_readers() as make:
        end = read_until_expired(broker, make)
        reason = "does not exist at .*: cursor 'billing' has expired: nobody was attached for [12] s, beyond "
        with pytest.raises(
            CursorError, match=f"{reason}cursor-expires=1, in queue 'orders'; .* new checkpoint, or set"
        ):
            make(broker, subscribe="orders", cursor="billing").latestOffset(end, ALL)
        reader = make(broker, subscribe="orders", cursor="billing", failOnDataLoss="false")
        assert bodies(reader, end, reader.latestOffset(end, ALL)) == numbered(3, 5), "what was unread stayed"


def test_cursor_expires_after_a_restart_of_its_broker_and_stays_gone(restarts):
    with stopped_readers() as make:
        broker = restarts()
        broker.declare(name="orders", durable=True)
        broker.publish("orders", numbered(5), persistent=True)
        reader = make(broker, subscribe="orders", cursor="billing")
        end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(3))
        reader.latestOffset(end, ReadMaxRows(3))
        broker.control("settings.set", scope="queue", pattern="orders", settings={"cursor-expires": 3600})
        reader.stop()
        close_links()
        broker = restarts(kill=True)
        shown = broker.control("cursor.show", cursor="billing")
        assert (shown["user"], shown["asked_s_ago"]) == ("guest", None)
        assert shown["idle_s"] + shown["expires_in_s"] == pytest.approx(3600)
        broker.control("settings.set", scope="queue", pattern="orders", settings={"cursor-expires": 1})
        until(lambda: not broker.control("list", kind="cursors")["items"], "the cursor has expired")
        broker.declare(name="later", durable=True)
        broker.publish("later", numbered(1), persistent=True)  # Its confirm comes behind the end of the cursor.
        broker = restarts(kill=True)
        with pytest.raises(
            CursorError, match=r"it was deleted, has expired \(cursor-expires\), or its broker was rest"
        ):
            make(broker, subscribe="orders", cursor="billing").latestOffset(end, ALL)
        assert broker.depth("orders") == 2


@pytest.mark.slow
def test_cursor_that_is_restored_idle_expires_without_another_request(restarts):
    with stopped_readers() as make:
        broker = restarts()
        broker.declare(name="orders", durable=True, cursor_expires=5)
        reader = make(broker, subscribe="orders", cursor="billing")
        reader.initialOffset()
        assert broker.control("cursor.show", cursor="billing")["expires_in_s"] == 5
        close_links()
        broker = restarts(kill=True)
        reader.stop()
        assert [each["name"] for each in broker.control("list", kind="cursors")["items"]] == ["billing"]
        until(lambda: not broker.control("list", kind="cursors")["items"], "the cursor has expired")
