"""Objects of operators and queries that come and go leave nothing to the garbage collector."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.management.jobs import KEPT_MOST
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.block_encoder import encode_published
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.left_objects import end, left_by

ROUNDS = 100
BLOCK = "application/vnd.penstock.block"
BATCH = {
    "query": "q", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": "q", "delivery": "dedup",
}  # fmt: skip


class Operator:
    """An administrator with a reply queue, whose broker has the queue `q`."""

    def __init__(self) -> None:
        self.driver: BrokerDriver = make_driver()
        self.client = Dialogue(self.driver)
        self.client.declare("q")
        self.client.declare("answers")
        self.rounds = 0

    def send(self, operation: str, body: bytes, content_type: str) -> None:
        properties = Properties(content_type=content_type, reply_to="answers", correlation_id="1")
        self.client.say(publish(operation, body, properties=properties, exchange="penstock.control"))
        while self.driver.run_turn():
            pass

    def ask(self, operation: str, **fields: object) -> None:
        """Ask for an operation, which must succeed."""
        words = {name.replace("_", "-"): value for name, value in fields.items()}
        self.send(operation, json.dumps(words).encode(), "application/json")
        content = self.answer()
        assert b'"error"' not in content, content

    def answer(self) -> bytes:
        """Take the answer."""
        queue = self.driver.broker.vhosts["/"].queues["answers"]
        (content,) = [message.content for message in queue.ready_queue.messages()]
        queue.purge(self.driver.broker.now)
        return content

    def do(self, method: int, **fields: object) -> None:
        self.client.say(method_frame(1, method, **fields))

    def purge(self, queue: str = "q") -> None:
        self.driver.broker.vhosts["/"].queues[queue].purge(self.driver.broker.now)

    def end(self) -> None:
        end(self.driver)

    # Kinds

    def virtual_host(self) -> None:
        self.ask("vhost.declare", name="w")
        vhost = self.driver.broker.vhosts["w"]
        queue = vhost.declare_queue("own", {}, False, False, None, None)
        vhost.declare_exchange("e", "topic", {}, False, False, False)
        vhost.bind("e", queue, None, "a.#", {})
        self.ask("vhost.delete", name="w")

    def exchange_bound_to_another_with_an_alternate(self) -> None:
        self.do(spec.EXCHANGE_DECLARE, exchange="other", type="fanout")
        self.do(spec.EXCHANGE_DECLARE, exchange="e", type="topic", arguments={"alternate-exchange": "other"})
        self.do(spec.EXCHANGE_BIND, destination="e", source="other", routing_key="")
        self.do(spec.QUEUE_BIND, queue="q", exchange="e", routing_key="k.*")
        self.client.say(publish("k.1", b"x", exchange="other") + publish("none", b"x", exchange="other"))
        self.do(spec.EXCHANGE_DELETE, exchange="e")
        self.do(spec.EXCHANGE_DELETE, exchange="other")
        self.purge()

    def dead_letters(self) -> None:
        self.client.declare("w", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="q")
        self.client.say(publish("w", b"x") * 3)
        self.do(spec.QUEUE_DELETE, queue="w")
        self.purge()

    def settings_of_a_pattern(self) -> None:
        self.ask("settings.set", scope="queue", pattern="q", settings={"capacity-messages": 5, "rate-messages": 10})
        self.client.say(publish("q", b"x"))
        self.ask("settings.unset", scope="queue", pattern="q")
        self.purge()

    def bound_of_an_address(self) -> None:
        self.ask("settings.set", scope="address", pattern="amq.fanout", settings={"capacity-messages": 5})
        self.do(spec.QUEUE_BIND, queue="q", exchange="amq.fanout")
        self.client.say(publish("", b"x", exchange="amq.fanout"))
        self.do(spec.QUEUE_UNBIND, queue="q", exchange="amq.fanout")
        self.ask("settings.unset", scope="address", pattern="amq.fanout")
        self.purge()

    def policy(self) -> None:
        self.ask("policy.set", name="p", pattern="^q$", definition={"max-length": 5, "message-ttl": 1000})
        self.client.say(publish("q", b"x"))
        self.ask("policy.clear", name="p")
        self.purge()

    def block_by_an_operator(self) -> None:
        self.ask("block", queue="q")
        publisher = Dialogue(self.driver)
        publisher.confirm()
        publisher.say(publish("q", b"x"))
        self.ask("unblock", queue="q")
        self.driver.disconnect(publisher.connection)
        self.purge()

    def user(self) -> None:
        self.ask("user.add", name="u", password="a password of many letters", tags=[])
        self.ask("user.delete", name="u")

    def list_and_reasons(self) -> None:
        self.ask("list", what="queues")
        self.ask("why", queue="q")

    def definitions(self) -> None:
        self.ask("definitions.export")

    def block_of_rows(self) -> None:
        data = encode_published([{"value": b"row"}] * 20, {"routing_key": "q"})
        self.send("publish.block", data, BLOCK)
        self.answer()
        self.purge()

    def batch_of_a_query(self, ends: str = "sink.commit") -> None:
        ids = {**BATCH, "batch": self.rounds}
        self.rounds += 1
        self.ask("sink.begin", **ids)
        staged = {**ids, "partition": 0, "attempt": 0, "row": 0, "digest": "d"}
        self.send(
            "publish.block", encode_published([{"value": b"row"}] * 20, {"routing_key": "q"}, staged=staged), BLOCK
        )
        self.answer()
        self.ask(ends, **ids)
        self.purge()

    def batch_that_is_aborted(self) -> None:
        self.batch_of_a_query("sink.abort")

    def lease(self) -> None:
        self.ask("lease.open", lease="l", cursors=[])
        self.ask("lease.close", lease="l")


KINDS = [name for name in vars(Operator) if not name.startswith("_")]


@pytest.mark.parametrize("kind", KINDS[KINDS.index("virtual_host") :])
def test_objects_of_operators_and_queries_leave_nothing_to_the_collector(kind: str) -> None:
    operator = Operator()
    act: Callable[[], None] = getattr(operator, kind)
    # The last finished jobs are kept, such as deletions of virtual hosts.
    assert left_by(lambda: [act(), operator.end()], ROUNDS, warm_up=KEPT_MOST) == {}
