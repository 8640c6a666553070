"""Producer listeners: the client side of a producer, which a protocol implements."""

from __future__ import annotations

from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.outbox import Held
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import NO_CLIENT, ProducerListener
from penstock.core.routing.route import Route
from penstock.errors import AccessRefused, BrokerError
from penstock.flow.gate import Gate
from penstock.management.gate_lines import LogLine
from tests.support.driven_connection import make_driver


class RecordingListener(ProducerListener):
    """A client that records what it is called for."""

    def __init__(self, logs: bool = True) -> None:
        super().__init__(7)
        self.producer: Producer | None = None
        self.calls: list[str] = []
        self.logs = logs
        self.forbidden: BrokerError | None = None

    def on_confirms(self) -> None:
        for outcome in self.producer.confirms.take():
            reason = "" if outcome.refusal is None else f" {outcome.refusal.cause}"
            self.calls.append(f"{int(outcome.first)}-{int(outcome.last)}{reason}")

    def on_returned(self, route: Route, content: bytes, refused: BrokerError | None) -> None:
        self.calls.append(f"returned {content.decode()}" + ("" if refused is None else f" {refused.code}"))

    def on_closed(self, error: BrokerError) -> None:
        self.calls.append(f"closed {error.code}")

    def on_blocked(self, gate: Gate) -> bool:
        self.calls.append(f"blocked {gate.name}")
        return self.logs

    def on_unblocked(self, gate: Gate) -> bool:
        self.calls.append(f"unblocked {gate.name}")
        return self.logs

    def on_departed(self) -> None:
        self.calls.append(f"departed {int(self.producer.loss.messages)}")

    def publish_error(self) -> BrokerError | None:
        return self.forbidden

    def on_held(self, held: Held) -> None:
        self.calls.append(f"held {int(held.charge)}")


class Client:
    """A producer with its listener, on a broker with a queue of a capacity of one message."""

    def __init__(self, confirming: bool = True, logs: bool = True) -> None:
        self.driver = make_driver()
        self.driver.begin(100.0)
        self.vhost = self.driver.broker.vhosts["/"]
        arguments: dict[str, object] = {"capacity-messages": 1, "hold-deadline": 5}
        self.queue = self.vhost.declare_queue("q", arguments, False, False, None, None)
        self.listener = RecordingListener(logs)
        self.producer = Producer(self.driver.broker, "p", HoldBudget(1000), None, self.listener)
        self.producer.confirming = confirming
        self.listener.producer = self.producer
        self.lines: list[LogLine] = []

    def publish(self, key: str = "q", content: bytes = b"x") -> None:
        route = self.vhost.route("", key, True)
        self.vhost.resolve(route, {})
        self.producer.publish(route, content, 10)

    def turn(self, now: float = 100.0) -> list[str]:
        """The calls of a turn, and those before it."""
        self.driver.begin(now)
        self.driver.run_turn()
        calls, self.listener.calls = self.listener.calls, []
        return calls

    def logged(self, word: str) -> int:
        self.lines += self.driver.log_queue.take()
        return sum(word in line.text for line in self.lines)


def test_producer_listener_gets_blocks_returns_and_outcomes_in_this_order() -> None:
    client = Client()
    client.publish()
    client.publish()
    assert client.turn() == ["held 10", "blocked q"]
    assert client.turn(105.0) == ["returned x 506", "2-2 deadline", "1-1"]
    client.publish("nowhere", b"lost")
    assert client.turn(105.0) == ["returned lost", "3-3"]
    client.queue.purge(105.0)
    assert client.turn(105.0) == ["unblocked q"]
    assert (client.logged("Flow Control Enforced"), client.logged("Flow Control Removed")) == (1, 1)


def test_producer_listener_decides_if_a_block_is_logged() -> None:
    client = Client(logs=False)
    client.publish()
    client.publish()
    assert "blocked q" in client.turn()
    assert client.logged("Flow Control") == 0


def test_producer_listener_closes_the_session_of_a_refused_unconfirmed_publish() -> None:
    client = Client(confirming=False)
    client.publish()
    client.publish()
    client.turn()
    assert client.turn(105.0) == ["closed 506"]


def test_producer_listener_counts_publishes_lost_at_the_end_of_the_session() -> None:
    client = Client(confirming=False)
    client.publish()
    client.publish()
    client.turn()
    client.producer.abort()
    assert client.turn() == ["unblocked q", "departed 1"]


def test_producer_listener_may_refuse_a_publish_on_the_slow_path() -> None:
    client = Client()
    client.publish()
    client.turn()
    client.listener.forbidden = AccessRefused("flow was requested")
    client.publish()
    assert client.turn() == ["closed 403"]
    assert client.producer.closing is client.listener.forbidden


def test_producer_without_a_listener_keeps_outcomes_and_logs_blocks() -> None:
    client = Client()
    producer = Producer(client.driver.broker, "other", HoldBudget(1000))
    producer.confirming = True
    client.publish()
    route = client.vhost.route("", "q", True)
    client.vhost.resolve(route, {})
    producer.publish(route, b"x", 10)
    client.turn(106.0)
    assert producer.listener is NO_CLIENT
    assert [outcome.confirmed for outcome in producer.confirms.take()] == [False]
    lines = [line.text for line in client.driver.log_queue.take() if line.text.startswith("[other]")]
    assert any("Flow Control Enforced" in line for line in lines), lines
