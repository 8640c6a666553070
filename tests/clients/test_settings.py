"""Settings by pattern on a real broker: by command and by file, while producers are blocked."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from penstock import sync
from penstock.client.errors import ControlError
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually, serving, settings_file, some_name

pytestmark = pytest.mark.clients


@pytest.fixture
def tuned(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of its own, with a settings file that says nothing yet: what is set may concern everybody."""
    with serving(tmp_path, *settings_file(tmp_path, "[broker]\n")) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.fixture
def control(tuned: BrokerProcess) -> Iterator[sync.Connection]:
    with connect(tuned.url, protocol="amqp091") as control:
        yield control


class Publisher:
    """A connection of pika's that publishes, and what it was told."""

    def __init__(self, broker: BrokerProcess, queue: str, **arguments: Any) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self.told: list[str] = []
        self.connection.add_on_connection_blocked_callback(lambda _, frame: self.told.append("blocked"))
        self.connection.add_on_connection_unblocked_callback(lambda _, frame: self.told.append("unblocked"))
        self.channel = self.connection.channel()
        self.queue = queue
        self.channel.queue_declare(queue, arguments=arguments)

    def publish(self, times: int) -> None:
        for number in range(times):
            self.channel.basic_publish("", self.queue, str(number).encode())

    def hears(self, *told: str) -> None:
        eventually(
            lambda: self.connection.process_data_events(0) or self.told == list(told), f"{told}, not {self.told}"
        )


@pytest.fixture
def make(tuned: BrokerProcess) -> Iterator[Callable[..., Publisher]]:
    """Makes publishers, and closes their connections before the broker leaves."""
    made: list[Publisher] = []

    def publisher(*words: Any, **arguments: Any) -> Publisher:
        made.append(Publisher(*words, **arguments))
        return made[-1]

    yield publisher
    for each in made:
        if each.connection.is_open:
            each.connection.close()


def depth_of(control: sync.Connection, queue: str) -> Callable[[], int]:
    return lambda: int(control.why(queue).raw["depth"]["messages"])


def test_raising_lowering_and_removing_a_threshold_while_a_producer_is_blocked(
    make: Callable[..., Publisher], tuned: BrokerProcess, control: sync.Connection
) -> None:
    publisher = make(tuned, "orders.eu")
    depth = depth_of(control, "orders.eu")
    control.set("queue", "orders.#", {"capacity-messages": 4, "stop-messages": 2, "hold-deadline": 0})
    publisher.publish(6)
    eventually(lambda: depth() == 4, "the capacity is reached")
    publisher.hears("blocked")
    control.set("queue", "orders.#", {"capacity-messages": 5})  # Raised, and still closed: 5 > 2.
    assert depth() == 4
    control.set("queue", "orders.#", {"capacity-messages": 50, "stop-messages": 40, "resume-messages": 40})
    eventually(lambda: depth() == 6, "the held publishes are in")
    publisher.hears("blocked", "unblocked")
    control.set("queue", "orders.eu", {"stop-messages": 5, "resume-messages": 1})  # Lowered below the depth.
    eventually(lambda: len(tuned.logged("QUE-1003")) == 2, "the gate closes without a publish")
    publisher.publish(1)
    publisher.hears("blocked", "unblocked", "blocked")
    control.unset("queue", "orders.eu")
    publisher.hears("blocked", "unblocked", "blocked", "unblocked")
    assert depth() == 7
    eventually(lambda: len(tuned.logged("QUE-1004")) == 2, "both openings in the log")


def test_command_is_answered_in_words_and_as_json(make: Callable[..., Publisher], tuned: BrokerProcess) -> None:
    said = tuned.command("set", "queue", "orders.#", "capacity-messages=1000", "stop-percent=60")
    assert said.splitlines() == [
        "queue orders.# capacity-messages=1000 stop-percent=60",
        "queue 'orders.#' matches no queue yet; it will apply to new ones",
    ]
    make(tuned, "orders.eu", **{"x-max-length-bytes": 5000, "x-overflow": "block"})
    said = tuned.command("set", "queue", "orders.#", "resume-percent=10")
    assert said.splitlines()[1] == "queue 'orders.#' matches orders.eu"
    shown = tuned.command("show", "queue", "orders.eu").splitlines()
    assert shown[0].split() == ["setting", "value", "from"]
    table = {line.split()[0]: " ".join(line.split()[1:]) for line in shown}
    assert table["capacity-messages"] == "1000 pattern 'orders.#' of vhost '/', set by command: capacity-messages=1000"
    assert table["capacity-bytes"] == "5000 bytes argument x-max-length-bytes=5000"
    assert table["stop-messages"] == "600 pattern 'orders.#' of vhost '/', set by command: stop-percent=60"
    assert table["resume-bytes"] == "500 bytes pattern 'orders.#' of vhost '/', set by command: resume-percent=10"
    assert table["stop-bytes"] == "3000 bytes pattern 'orders.#' of vhost '/', set by command: stop-percent=60"
    assert table["overflow"] == "block argument x-overflow=block"
    assert table["hold-deadline"] == "25 s default"
    assert table["message-ttl"] == "none default"
    assert tuned.command("set", "broker", "hold-deadline=5").splitlines() == ["broker hold-deadline=5"]
    found = {row["setting"]: row for row in json.loads(tuned.command("show", "queue", "orders.eu", "--json"))}
    assert found["hold-deadline"] == {
        "setting": "hold-deadline",
        "value": 5,
        "origin": "broker",
        "from": "broker, set by command: hold-deadline=5",
        "name": "hold-deadline",
        "given": "5",
        "unit": "s",
        "pattern": "",
        "by": "command",
    }
    assert found["capacity-messages"]["pattern"] == "orders.#"
    assert tuned.command("settings").splitlines() == [
        "scope   pattern   vhost  setting                 by",
        "queue   orders.#  /      capacity-messages=1000  command",
        "queue   orders.#  /      stop-percent=60         command",
        "queue   orders.#  /      resume-percent=10       command",
        "broker            -      hold-deadline=5         command",
    ]
    assert tuned.command("unset", "queue", "orders.#", "stop-percent", "resume-percent").splitlines() == [
        "queue orders.# capacity-messages=1000",
        "queue 'orders.#' matches orders.eu",
    ]
    assert tuned.command("unset", "queue", "orders.#").splitlines()[0] == "queue orders.# nothing set by command"
    assert json.loads(tuned.command("unset", "broker", "--json"))["settings"] == {}
    assert json.loads(tuned.command("settings", "--json")) == []
    assert tuned.command("set", "user", "guest", "burst-messages=5").splitlines()[2:] == [
        "burst-messages has no effect without rate-messages: set that as well"
    ]
    assert "weight=3" in tuned.command("set", "user", "guest", "weight=3")
    assert "pattern 'guest', set by command: weight=3" in tuned.command("show", "user", "guest")


def shown(broker: BrokerProcess, *words: str) -> dict[str, tuple[object, str]]:
    return {row["setting"]: (row["value"], row["from"]) for row in json.loads(broker.command("show", *words, "--json"))}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "queue", "q", "capacity-byte=1"), "scope queue has no setting 'capacity-byte'; did you mean"),
        (("set", "queue", "q"), "no settings for queue 'q': give at least one NAME=VALUE after the pattern"),
        (("set", "queue", "q", "overflow=page"), "queue 'q': the overflow policy page needs a data directory"),
        (("show", "queue", "nobody"), "no queue 'nobody' in vhost '/'"),
        (("show", "vhost", "nobody"), "no vhost 'nobody'"),
    ],
)
def test_invalid_setting_is_refused_in_one_sentence(broker: BrokerProcess, words: tuple[str, ...], said: str) -> None:
    assert said in broker.refusal(*words)


def test_settings_of_zero_do_not_shut_out_the_operator(tuned: BrokerProcess) -> None:
    nothing = ["capacity-messages=0", "stop-messages=0", "resume-messages=0", "message-ttl=0", "overflow=reject"]
    nothing += ["consumer-window-bytes=0", "consumer-max-rate=0.001", "slow-consumer-rate=1000000"]
    tuned.command("set", "queue", "#", *nothing, "slow-consumer-policy=cancel", "slow-consumer-period=0.001")
    tuned.command("set", "broker", "capacity-bytes=0")
    assert "capacity-messages=0" in tuned.command("settings")
    tuned.command("unset", "queue", "#")
    assert len(tuned.command("settings").splitlines()) == 2


# The settings file


def reload(broker: BrokerProcess, file: Path, text: str, told: str) -> str:
    """Write the settings file anew, tell the broker, and return what it logged about it."""
    before = len(broker.logged("reload: "))
    file.write_text(text)
    broker.process.send_signal(signal.SIGHUP)
    eventually(lambda: any(told in line for line in broker.logged("reload: ")[before:]), f"{told!r} in the log")
    return "\n".join(broker.logged("reload: ")[before:])


def test_reload_is_in_effect_at_once_while_a_producer_is_blocked(
    make: Callable[..., Publisher], tuned: BrokerProcess, control: sync.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "penstock.toml"
    publisher = make(tuned, "orders.eu")
    reload(
        tuned,
        file,
        '[queue."orders.#"]\ncapacity-messages = 3\nhold-deadline = 0\n',
        "settings of 1 queues were computed",
    )
    publisher.publish(5)
    publisher.hears("blocked")
    depth = depth_of(control, "orders.eu")
    eventually(lambda: depth() == 3, "the capacity is reached")
    reload(tuned, file, '[vhost."/"]\nhold-deadline = 7\n[queue."#"]\ncapacity-messages = 30\n', "is in effect")
    eventually(lambda: depth() == 5, "the held publishes are in")
    publisher.hears("blocked", "unblocked")
    row = next(each for each in control.show("queue", "orders.eu") if each["setting"] == "hold-deadline")
    assert row["from"] == "vhost pattern '/', set by file line 2: hold-deadline=7"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[queue."q"]\nstop-messages = 4\n[queue."r"\n', "(at line 3, column 11)"),
        ('[queue."q"]\nstop-messages = 400\n', "stop-messages=400 (pattern 'q', set by file line 2) is above"),
    ],
)
def test_file_that_cannot_be_meant_leaves_the_old_settings_and_its_line_is_logged(
    make: Callable[..., Publisher], tuned: BrokerProcess, control: sync.Connection, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "penstock.toml"
    make(tuned, "q", **{"capacity-messages": 100})
    reload(tuned, file, '[queue."q"]\nstop-messages = 50\n', "is in effect")
    logged = reload(tuned, file, text, "the old settings stay")
    assert said in logged
    assert str(file) in logged
    assert control.settings() == [{"scope": "queue", "pattern": "q", "command": {}, "file": {"stop-messages": "50"}}]
    assert control.why("q").raw["stop"]["messages"] == 50


def test_setting_by_command_survives_a_reload_and_overrides_the_file(
    make: Callable[..., Publisher], tuned: BrokerProcess, control: sync.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "penstock.toml"
    make(tuned, "q")
    control.set("queue", "q", {"capacity-messages": 10})
    logged = reload(tuned, file, '[queue."q"]\ncapacity-messages = 99\n', "stay and take precedence over the file")
    assert "is in effect" in logged
    assert control.why("q").raw["capacity"]["messages"] == 10
    assert control.set("queue", "q", {"capacity-messages": 11})["sentences"] == [
        "queue 'q' matches q",
        "overflow changes for queue q: holds publishers at 11 messages; before: holds publishers at 10 messages",
        "capacity-messages takes precedence over the settings file for queue 'q', until it is unset",
    ]
    assert "is in effect again" in control.unset("queue", "q")["sentences"][2]
    assert control.why("q").raw["capacity"]["messages"] == 99
    with pytest.raises(ControlError, match="not set by command but by the settings file"):
        control.unset("queue", "q")


def test_start_up_setting_is_named_at_a_reload(tuned: BrokerProcess, tmp_path: Path) -> None:
    logged = reload(
        tuned,
        tmp_path / "penstock.toml",
        "[broker]\nheartbeat-s = 5\nhold-deadline-s = 3\n",
        "heartbeat-s takes effect only at the start; restart the broker",
    )
    assert "listen" not in logged
    assert tuned.alive()


def test_broker_without_a_settings_file_says_so_and_goes_on(own_broker: BrokerProcess) -> None:
    own_broker.process.send_signal(signal.SIGHUP)
    eventually(lambda: own_broker.logged("reload: there is no settings file"), "the log line")
    assert own_broker.alive()


def test_settings_of_a_file_count_from_the_start(make: Callable[..., Publisher], tmp_path: Path) -> None:
    options = settings_file(
        tmp_path, '[broker]\ndefault-flow-stop-threshold = 50\ncapacity-bytes = "1MiB"\n[queue."*"]\nmax-length = 7\n'
    )
    with serving(tmp_path, *options) as broker:
        name = some_name("q")
        publisher = make(broker, name)
        found = broker.queue(name)
        assert (found["max_length"]["messages"], found["max_length"]["overflow"]) == (7, "drop-head")
        assert found["overflow"] == "block"
        other = make(broker, "a.b")
        assert broker.queue("a.b")["stop"]["bytes"] == 512 * 1024
        publisher.connection.close()
        other.connection.close()
