"""A broker without a clock, whose settings are changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.core.broker import Broker
from penstock.core.consume.session import Session
from penstock.core.effects import GateChanged
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.settings import changes
from penstock.core.settings.limits import Defaults
from penstock.core.settings.policy_reader import read_policy
from penstock.core.settings.table import SettingsChange
from penstock.errors import BrokerError
from penstock.flow.work import finish
from penstock.settings.read import read_settings
from tests.support import at_once


class Bench:
    """A broker without a clock, its producers and what they were told."""

    def __init__(self) -> None:
        self.broker = Broker(Defaults())
        self.vhost = self.broker.add_vhost("/")
        self.session = Session()

    def queue(self, name: str, **arguments: object) -> Queue:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        queue = self.vhost.declare_queue(name, given, False, False, None, None)
        self.broker.touch_queue(queue)
        return queue

    def set(self, scope: str, pattern: str, **settings: object) -> SettingsChange:
        given = {key.replace("_", "-"): value for key, value in settings.items()}
        return at_once.set_named(self.broker, scope, pattern, **given)

    def policy(self, policy: str, operator: bool = False, match: str = ".*", **definition: object) -> SettingsChange:
        """Set a policy, or an operator policy, of the queues that a regular expression matches."""
        given = {key.replace("_", "-"): value for key, value in definition.items()}
        return self.set_policy(policy, given, operator, match)

    def set_policy(
        self, policy: str, definition: dict[str, object], operator: bool = False, match: str = ".*"
    ) -> SettingsChange:
        change = changes.setting(read_policy("/", policy, {"pattern": match, "definition": definition}, operator))
        return finish(changes.change_policies_steps(self.broker, [change]))

    def clear_policy(self, policy: str, operator: bool = False) -> SettingsChange:
        return finish(changes.clear_policy_steps(self.broker, "/", policy, operator))

    def file(self, *entries: tuple[str, str, dict[str, object]]) -> None:
        said = [(scope, pattern, read_settings(scope, pattern, given)) for scope, pattern, given in entries]
        at_once.replace_file(self.broker, said)

    def producer(self, confirming: bool = True) -> Producer:
        producer = Producer(self.broker, "p", HoldBudget(1_000_000))
        producer.confirming = confirming
        return producer

    def publish(self, producer: Producer, queue: str, *charges: int) -> None:
        route = self.vhost.route("", queue, False)
        self.vhost.resolve(route, {})
        for charge in charges:
            producer.publish(route, b"", charge)

    def run(self, now: float = 0.0) -> None:
        self.broker.begin(now)
        while self.broker.run(1000):
            pass

    def told(self, producer: Producer) -> list[tuple[int, int, bool]]:
        self.broker.take_confirming()
        return [(int(each.first), int(each.last), each.confirmed) for each in producer.confirms.take()]

    def crossings(self) -> list[bool]:
        return [each.transition.closed for each in self.broker.effects() if isinstance(each, GateChanged)]


def refused(act: Callable[[], object], kind: type[BrokerError] = BrokerError) -> str:
    """Return the reason for which an act is refused with an error of this kind."""
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)
