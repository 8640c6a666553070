"""One deterministic scenario in one broker with two virtual hosts, or in two brokers with one virtual host each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from penstock.access.password_hash import file_password
from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER
from penstock.access.user import EVERYTHING, User
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.control_request import ControlRequest
from penstock.connections.topology import Asker, declare_queue
from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost
from penstock.describe.lists import Found
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.flow.series import SLOT_S
from penstock.flow.work import finish
from penstock.management.flow_log_records import Recorder
from penstock.management.jobs import Subject
from penstock.management.operation import Answer, Answered, Asked, Operation, Streamed, Waiting
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.driven_connection import Dialogue, publish
from tests.support.operation_calls import ask, finish_waits

HOSTS = ("/", "other")
QUEUES = (7, 5)
"""Queues of each virtual host besides those with a part to play."""
TAGS = {"guest": [ADMINISTRATOR], "ops": [MONITORING], "maker": [POLICYMAKER], "app": [MANAGEMENT]}
ENTERS = {"ops": HOSTS, "maker": ("/",), "app": ("other",)}
"""Virtual hosts that a user may enter; guest may enter all."""
GATED = {"capacity-messages": 20, "stop-messages": 3, "resume-messages": 1}
SAMPLED_FROM = 120.0
ENDS_AT = 135.0
"""Seconds of the first and last samples, after all that happens."""


def shovel(host: str, number: int) -> dict[str, object]:
    """Return a shovel of a virtual host."""
    here = f"amqp:///{quote(host, safe='')}"
    return {"src-uri": here, "src-queue": f"q{number}", "dest-uri": "amqp://u:p@elsewhere", "dest-queue": "q"}


class Scene:
    """A broker with the scenario in some of the virtual hosts."""

    def __init__(self, hosts: Sequence[str]) -> None:
        core = Broker(Defaults())
        for host in hosts:
            core.add_vhost(host)
        self.driver = BrokerDriver(core, ConnectionLimits(), "seed", "0")
        self._ports = 0
        self._getters: dict[str, Dialogue] = {}
        self._at(90.0)
        self._add_users()
        self._set_for_all()
        self.driver.recorder = Recorder(core)
        self.driver.recorder.begin()
        for number, host in enumerate(HOSTS):
            self._at(100.0 + 7 * number)
            if host in hosts:
                self._populate(number, host)
        for number, host in enumerate(HOSTS):
            self._at(116.0 + number)
            if host in hosts:
                self._publish_late(host)
        for slot in range(int(SAMPLED_FROM / SLOT_S), int(ENDS_AT / SLOT_S) + 1):
            self._at(slot * SLOT_S)
            self.driver.stats.sample(self.driver.connections)
        self.driver.tick()
        self.driver.alarm_checks.check()
        self.driver.take_records()

    def _at(self, now: float) -> None:
        self.driver.begin(now)
        while self.driver.run_turn():
            pass

    def _add_users(self) -> None:
        """Add users; each broker has all of them."""
        access = self.driver.broker.access
        for name, tags in TAGS.items():
            user = User(name, file_password(name), tags)
            user.everywhere = name == "guest"
            user.permissions = dict.fromkeys(ENTERS.get(name, ()), EVERYTHING)
            user.limits = {"max-connections": 50} if name == "app" else {}
            access.restore_user(user)
        for host in HOSTS:
            access.vhost_limits[host] = {"max-queues": 100}

    def _set_for_all(self) -> None:
        """Make what counts for all virtual hosts; each broker has all of it."""
        self.ask("settings.set", scope="broker", settings={"hold-deadline": "900 s"})
        self.ask("settings.set", scope="broker", settings={"alarm-gate-closed": "2 s"})
        self.ask("settings.set", scope="user", pattern="app", settings={"rate-messages": 1000})
        self.ask("settings.set", scope="queue", pattern="spare", settings={"capacity-messages": 9}, everywhere=True)
        for name in ("g2", "g1"):
            self.ask("PUT /global-parameters/{name}", name=name, value=[name])

    def ask(self, operation: str, /, host: str | None = None, **fields: object) -> Any:
        """Ask for an operation as guest."""
        place = operation.split()
        name = operation if len(place) == 1 else " ".join(place[:2])
        vhost = host or next(iter(self.driver.broker.vhosts))
        return ask(self.driver, name, fields, None, vhost, access_of(self.driver.broker, "guest", vhost))

    def _populate(self, number: int, host: str) -> None:
        self._ports = 0
        self._declare(number, host)
        self._define(number, host)
        self._publish(number, host)
        self._read(number, host)
        if number:
            self.ask("block", host, vhost=host, reason="all")
        access = access_of(self.driver.broker, "guest", host)
        self.driver.jobs.add("queue.move", access, f"asker {number}", (Subject("queue", "orders", host),))

    def _declare(self, number: int, host: str) -> None:
        asker, vhost = Asker(self.driver.broker, self.driver.services), self.driver.broker.vhosts[host]
        for each in range(QUEUES[number]):
            arguments: dict[str, object] = {"x-queue-type": "quorum"} if each % 3 == 0 else {"x-max-priority": each}
            queue = declare_queue(asker, vhost, f"q{each * 3 % 7}", arguments, True)
            vhost.bind("amq.topic", queue, None, f"key.{each % 2}", {})
        declare_queue(asker, vhost, "orders", dict(GATED))
        declare_queue(asker, vhost, "late", dict(GATED))
        declare_queue(asker, vhost, f"bills{number}", dict(GATED))
        for name in ("dead", "log", "feed", "staged"):
            declare_queue(asker, vhost, name, {})
        declare_queue(asker, vhost, "work", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        vhost.declare_exchange(f"x{9 - number}", "fanout", {}, True, False, False)
        vhost.declare_exchange("shared", "headers", {"some": number}, True, False, False)

    def _define(self, number: int, host: str) -> None:
        self.ask("policy.set", host, name="some", pattern="^q[0-3]$", definition={"max-length": 1000 + number})
        self.ask("policy.set", host, name=f"o{number}", pattern="^q", definition={"max-length": 9}, operator=True)
        self.ask(
            "settings.set",
            host,
            scope="queue",
            pattern=f"bills{number}",
            settings={"hold-deadline": f"{100 + number} s"},
        )
        path = "PUT /parameters/{component}/{vhost}/{name}"
        for name in ("p2", "p1"):
            self.ask(path, host, component="shovel", vhost=host, name=name, value=shovel(host, number))
        far = {"uri": "amqp://u:p@far"}
        self.ask(path, host, component="federation-upstream", vhost=host, name="up", value=far)
        federated = {"federation-upstream": "up"}
        self.ask("policy.set", host, name="federated", pattern=f"^(dead|x{9 - number})$", definition=federated)
        if number:
            self.ask("bridge.pause", host, name="up")
        self.ask("block", host, queue="q2", reason=f"reason {number}")

    def _client(self, number: int, host: str, user: str = "guest", is_new: bool = False) -> Any:
        self._ports += 1
        peer = f"10.0.{number}.{self._ports}:5000"
        client: Dialogue | Amqp10Dialogue
        if is_new:
            client = Amqp10Dialogue(
                self.driver, user=user, password=user, peer=peer, hostname=f"vhost:{host}",
                container_id=f"container-{number}",
            )  # fmt: skip
        else:
            client = Dialogue(self.driver, user=user, password=user, vhost=host, peer=peer)
        return client

    def _publish(self, number: int, host: str) -> None:
        """Publish over both protocols until gates block the producers."""
        for each in range(2):
            producer = self._client(number, host, "app" if host in ENTERS["app"] else "ops").confirm()
            for count in range(5 - each):
                self._at(self.driver.broker.now + 0.25)
                producer.say(publish("orders", b"x" * (10 + count)))
        sender = self._client(number, host, is_new=True)
        sender.attach_sender(f"/queues/bills{number}")
        sender.put(*[b"bill %d" % each for each in range(3 + number)])
        producer = self._client(number, host)
        for each in (0, 1, 3, 4, 5, 6):
            for _ in range(each % 3 + 2 * number):
                producer.say(publish(f"q{each}", b"m" * (each + 1)))
        for _ in range(3):
            producer.say(publish("work", b"work"))
        self._client(number, host).say(publish("key.1", b"topic", exchange="amq.topic"))  # It waits for q2.

    def _publish_late(self, host: str) -> None:
        """Block a producer of each virtual host later than all others are blocked."""
        for _ in range(5):
            self._getters[host].say(publish("late", b"late"))

    def _read(self, number: int, host: str) -> None:
        """Consume over both protocols, reject into dead letters, and read with a cursor and a lease."""
        reader = self._client(number, host)
        reader.consume("q1", f"tag{number}", prefetch=1)
        reader.consume("q4", "same", prefetch=2)
        receiver = self._client(number, host, is_new=True)
        receiver.attach_receiver("/queues/q5", credit=1)
        getter = self._getters[host] = self._client(number, host)
        getter.say(method_frame(1, spec.BASIC_GET, queue="work"))
        getter.say(method_frame(1, spec.BASIC_REJECT, delivery_tag=1, requeue=False))
        getter.say(method_frame(1, spec.BASIC_GET, queue="work"))
        connection, batch = getter.connection, {"query": f"query{number}", "batch": 0, "run": "r", "write": "w"}
        target = {"exchange": "", "routing_key": "staged", "delivery": "dedup", "partition": 0, "attempt": 0}
        for operation, fields in (
            ("cursor.attach", {"cursor": f"c{2 - number}", "queues": ["log"]}),
            ("lease.open", {"queues": ["feed"], "query": "7c3e"}),
            ("sink.begin", batch | target),
        ):
            ask(self.driver, operation, fields, connection, host)


def answer_of(driver: BrokerDriver, row: Operation, fields: Mapping[str, object], user: str, vhost: str) -> Answer:
    """Return the answer of one broker in the form of JSON, asked in a virtual host that it may not have."""
    broker = driver.broker
    where = broker.vhosts.get(vhost) or VirtualHost(vhost, broker, broker.table, broker.gates)
    request = ControlRequest(where, None, None, None, b"{}", access_of(broker, user, vhost))
    request.fields = dict(fields)
    found = row.run(driver, request)
    if isinstance(found, Streamed):
        parts = {name: [each for rows in parts for each in rows] for name, parts in found.lists}
        return plain({**found.head, **parts})
    if isinstance(found, Waiting):
        return plain(finish_waits(driver, found))
    answer = found if found is None or isinstance(found, dict | list | str | Found) else finish(found)
    if isinstance(answer, Found):
        items = [answer.rows.of(item.subject) for item in answer.items]
        return plain({**answer.numbers(), "items": items} if answer.page else items)
    return plain(answer)


def plain(answer: object) -> Any:
    """Return an answer after its way as JSON."""
    return json.loads(json.dumps(answer))


def joined_answer(brokers: Sequence[BrokerDriver], row: Operation, fields: Row, user: str, vhost: str) -> Answer:
    """Return the joined answers of several brokers."""
    assert row.join is not None
    asked = Asked(fields, len(brokers), brokers[0].control.kinds)
    answers: list[Answered] = []
    for driver, its in zip(brokers, row.join.spread(asked), strict=True):
        try:
            answers.append(None if its is None else answer_of(driver, row, its, user, vhost))
        except BrokerError as error:
            answers.append(error)
    return plain(row.join.join(asked, answers))


NUMBERED = re.compile(r"\b(con:|lease |job |connection '?)\d+")
OTHERS = re.compile(r"; the first of .*$")
"""Names in an error of what there is, which are those of one broker."""


def comparable(value: object, own: Mapping[str, str]) -> object:
    """Return an answer without what is each process's own: fields of these names, and numbers of connections."""
    if isinstance(value, dict):
        left_out = [*own, *(["name"] if value.get("name") == str(value.get("number")) else [])]
        return {name: comparable(each, own) for name, each in value.items() if name not in left_out}
    if isinstance(value, list):
        return [comparable(each, own) for each in value]
    if isinstance(value, str):
        return OTHERS.sub("", NUMBERED.sub(r"\1N", value))
    return round(value, 3) if isinstance(value, float) else value


ROUNDED = 0.002
"""Difference of a sum of rounded numbers from a rounded sum."""


def differences(whole: object, joined: object, path: str = "") -> list[str]:
    """Return where two answers differ."""
    if isinstance(whole, dict) and isinstance(joined, dict):
        names = [*whole, *[name for name in joined if name not in whole]]
        pairs = [(whole.get(name), joined.get(name), f"{path}.{name}") for name in names]
        missing = [f"{path}.{name} is in one alone" for name in whole.keys() ^ joined.keys()]
        return missing + [each for pair in pairs for each in differences(*pair)]
    if isinstance(whole, list) and isinstance(joined, list):
        if len(whole) != len(joined):
            return [f"{path} has {len(whole)} of the whole, {len(joined)} joined: {whole} | {joined}"[:2000]]
        places = enumerate(zip(whole, joined, strict=True))
        return [each for place, pair in places for each in differences(*pair, f"{path}[{place}]")]
    if isinstance(whole, float) or isinstance(joined, float):
        if isinstance(whole, int | float) and isinstance(joined, int | float) and abs(whole - joined) <= ROUNDED:
            return []
    return [] if whole == joined else [f"{path}: {whole!r:.300} of the whole, {joined!r:.300} joined"]
