"""A wall clock that is set by hours while a broker runs: messages and queues live as long as set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.brokers import eventually, serving
from tests.support.faults import make_library
from tests.support.pika_helpers import client_of

HOURS_S = 3 * 3600
HEARTBEAT_S = 30
"""Far less than the jump, and far more than a machine stands still."""
PAGE: dict[str, Any] = {"x-overflow": "page", "capacity-messages": 10}
TEN_MINUTES = pika.BasicProperties(delivery_mode=2, expiration="600000")
SHORT = pika.BasicProperties(delivery_mode=2, expiration="1500")
SOME = [str(number) for number in range(50)]


@pytest.mark.slow
@pytest.mark.parametrize("jump_s", [HOURS_S, -HOURS_S], ids=["forward", "backward"])
def test_clock_that_is_set_while_the_broker_runs_makes_nothing_older_or_younger(
    tmp_path: Path, data: str, jump_s: int
) -> None:
    """Nor anybody who waits: heartbeats, holds and times to live go by a clock that nobody sets."""
    switch = tmp_path / "clock"
    clock = {"LD_PRELOAD": str(make_library(tmp_path)), "CLOCK_OFF_S": f"@{switch}"}
    with serving(tmp_path, "--data", data, environment=clock) as broker, client_of(broker) as client:
        for name, arguments in (("plain", {}), ("paged", PAGE), ("held", {"capacity-messages": 1, "hold-deadline": 1})):
            client.channel.queue_declare(name, durable=True, arguments=arguments)
        client.publish("plain", *SOME, properties=TEN_MINUTES)
        client.publish("paged", *SOME, properties=TEN_MINUTES)
        client.publish("plain", "short", properties=SHORT)
        lives = pika.BlockingConnection(pika.URLParameters(f"{broker.url}?heartbeat={HEARTBEAT_S}"))
        switch.write_text(str(jump_s))

        def has_expired() -> bool:
            lives.process_data_events(0)
            return client.depth("plain") == 50

        eventually(has_expired, "what is short-lived goes when its time is up")
        lives.close()
        client.publish("held", "fills it")
        with pytest.raises(pika.exceptions.NackError):
            client.publish("held", "is refused at the hold deadline")
        client.publish("paged", "afterwards", properties=TEN_MINUTES)
        assert [body for body, _ in client.drain("paged")] == [*SOME, "afterwards"]
        assert [body for body, _ in client.drain("plain")] == SOME
        client.publish("plain", *SOME, properties=TEN_MINUTES)
        client.publish("paged", *SOME, properties=TEN_MINUTES)
        broker.kill()
    with serving(tmp_path, "--data", data, environment=clock) as broker, client_of(broker) as client:
        assert [body for body, _ in client.drain("paged")] == SOME
        assert [body for body, _ in client.drain("plain")] == SOME
