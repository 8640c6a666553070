"""The brokers that are measured: ours compiled, ours interpreted, and RabbitMQ where it is installed."""

import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench import processes

ROOT = Path(__file__).resolve().parent.parent
COMPILED, INTERPRETED, RABBITMQ = "compiled", "interpreted", "rabbitmq"
SQLITE = "sqlite"
"""Ours compiled, beside itself with another store."""
# Debian's wrapper in /usr/sbin changes to the system's rabbitmq user; ours runs as whoever measures.
RABBITMQ_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
READY_SECONDS = 90.0


class BrokerUnavailable(Exception):
    """A broker cannot take part; the text says why in one sentence."""


@dataclass
class Broker:
    """A running broker: the port to connect to, and how it is stopped."""

    name: str
    title: str
    port: int
    process: subprocess.Popen[str]
    after_stop: Callable[[], None] = lambda: None
    options: tuple[str, ...] = ()
    """What the load generator must be told to load it."""
    server: Callable[[], list[int]] = list
    """Processes of the database that it keeps its messages in."""

    def pids(self) -> list[int]:
        """Return the broker's process and all that it has started."""
        return processes.tree(self.process.pid)

    def stop(self) -> None:
        """End the broker and everything that it has started."""
        processes.stop(self.process)
        self.after_stop()


def _say_version(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [*command, "--version"], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise BrokerUnavailable(f"`{' '.join(command)} --version` failed: {last}")
    return done.stdout.strip()


def _read_line(stream: IO[str], deadline: float) -> str:
    """Return the next line of the stream, or nothing if none has begun by the deadline."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return stream.readline() if selector.select(max(0.0, deadline - time.monotonic())) else ""


class PenstockNode:
    """Our broker in the form that is asked for, with a data directory of its own; it may be started again and again.

    With `store`, the URL of a database, it keeps there what is durable; with `port` it is always at that one, and with
    `http_port` it serves the HTTP API there; `config` is its settings file; `options` are further ones of the command.
    """

    def __init__(
        self,
        name: str,
        scratch: Path,
        store: str | None = None,
        *,
        port: int = 0,
        http_port: int | None = None,
        config: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self._environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        if name == COMPILED:
            self._command = [str(Path(sys.executable).with_name("penstock"))]
            if not Path(self._command[0]).exists():
                raise BrokerUnavailable(f"Penstock is not installed beside {sys.executable}: `make setup` does it.")
        else:
            self._command = [sys.executable, "-m", "penstock"]
            self._environment["PYTHONPATH"] = str(ROOT / "src")
        self.title = _say_version(self._command, self._environment)
        if f"({name}" not in self.title:
            asked = f"The {name} form was asked for, but `{' '.join(self._command)} --version` says {self.title}."
            raise BrokerUnavailable(asked)
        self.data = scratch / f"{name}-data"
        self._options = ["--data", str(self.data)] if store is None else ["--store", store]
        self._options += ["--listen", f"127.0.0.1:{port}"]
        if http_port is not None:
            self._options += ["--http", f"127.0.0.1:{http_port}"]
        if config is not None:
            self._options += ["--config", str(config)]
        self._options += options
        self.log = scratch / f"{name}.log"

    def launch(self) -> subprocess.Popen[str]:
        """Start it; `port` waits until it is ready."""
        with self.log.open("a") as log:
            return subprocess.Popen(
                [*self._command, "serve", *self._options],
                env=self._environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip

    def port(self, process: subprocess.Popen[str]) -> int:
        """Wait until it is ready; return the port that it has picked."""
        assert process.stdout is not None
        line = _read_line(process.stdout, time.monotonic() + READY_SECONDS)
        found = re.match(r"ready .*?amqp://[^\s:]+:(\d+)", line)
        if not found:
            raise BrokerUnavailable(f"`penstock serve` did not get ready; it printed {line.strip()!r}, see {self.log}.")
        return int(found[1])

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `penstock`, in the form of the broker."""
        return subprocess.run(
            [*self._command, *words], env=self._environment, cwd=ROOT,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def close(self) -> None:
        """Nothing of it is left but the process."""


def start_penstock(name: str, scratch: Path, config: Path | None = None) -> Broker:
    """Start our own broker in the form that is asked for, on a port that it picks."""
    return start_node(name, PenstockNode(name, scratch, config=config))


def start_node(name: str, node: "PenstockNode | RabbitmqNode") -> Broker:
    """Start a node, and wait until it is ready."""
    process = node.launch()
    try:
        return Broker(name, node.title, node.port(process), process, node.close)
    except BaseException:
        processes.stop(process)
        node.close()
        raise


def speaks_amqp091(port: int) -> bool:
    """Tell whether somebody on the port speaks AMQP 0-9-1."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"AMQP\0\0\x09\x01")
            return connection.recv(1) == b"\x01"  # a method frame: connection.start
    except OSError:
        return False


def _rabbitmq_environment(
    scratch: Path, port: int, epmd_port: int, http_port: int | None, plugins: tuple[str, ...]
) -> dict[str, str]:
    """Return the environment of a node that shares nothing with the system's: ports, directories, cookie, epmd."""
    home = scratch / "rabbitmq"
    home.mkdir(exist_ok=True)
    (home / "empty.conf").touch()
    (home / "plugins").write_text(f"[{','.join(plugins)}].\n")
    if http_port is not None:
        (home / "rabbitmq.conf").write_text(
            f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http_port}\ncollect_statistics_interval = 500\n"
        )
    mine = {
        "HOME": home,
        "ERL_EPMD_PORT": epmd_port,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_BASE": home,
        "RABBITMQ_MNESIA_BASE": home / "mnesia",
        "RABBITMQ_LOG_BASE": home / "log",
        "RABBITMQ_PID_FILE": home / "pid",
        "RABBITMQ_CONF_ENV_FILE": home / "empty.conf",
        "RABBITMQ_CONFIG_FILE": home / "rabbitmq",
        "RABBITMQ_ADVANCED_CONFIG_FILE": home / "advanced.config",
        "RABBITMQ_CONFIG_FILES": home / "conf.d",
        "RABBITMQ_ENABLED_PLUGINS_FILE": home / "plugins",
        "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": processes.free_port(),
        "RABBITMQ_ALLOW_INPUT": "1",  # the script becomes the virtual machine instead of waiting for it
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    return kept | {name: str(value) for name, value in mine.items()}


def _rabbitmq_title() -> str:
    found = [path.name for path in Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")]
    version = found[0].partition("-")[2] if found else "of unknown version"
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "erlang-base"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    erlang = done.stdout.rpartition(":")[2].partition("+")[0] if done.returncode == 0 else "of unknown version"
    return f"RabbitMQ {version}, Erlang {erlang}, default settings, no plugins"


class RabbitmqNode:
    """A RabbitMQ node of our own, with default settings; the system's service is not touched.

    With `http_port` its management plugin is enabled, and serves its HTTP API there. `plugins` are enabled as well;
    with `port` the node listens there.
    """

    def __init__(
        self, scratch: Path, http_port: int | None = None, plugins: tuple[str, ...] = (), *, port: int | None = None
    ) -> None:
        epmd = shutil.which("epmd")
        if not RABBITMQ_SCRIPT.exists() or not epmd:
            raise BrokerUnavailable("RabbitMQ is not installed (Debian: apt-get install rabbitmq-server).")
        self.title = _rabbitmq_title()
        self.data = scratch / "rabbitmq" / "mnesia"
        self.log = scratch / "rabbitmq.log"
        self._scratch = scratch
        self._port, epmd_port = port or processes.free_port(), processes.free_port()
        enabled = plugins if http_port is None else (*plugins, "rabbitmq_management")
        self._environment = _rabbitmq_environment(scratch, self._port, epmd_port, http_port, enabled)
        # The node would start a daemon that outlives it; a child of ours ends with us.
        self._epmd = subprocess.Popen([epmd, "-address", "127.0.0.1", "-port", str(epmd_port)],
                                      env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      text=True, start_new_session=True)  # fmt: skip

    def launch(self) -> subprocess.Popen[str]:
        """Start it; `port` waits until it is ready."""
        with self.log.open("a") as log:
            return subprocess.Popen([str(RABBITMQ_SCRIPT)], env=self._environment, cwd=self._scratch, text=True,
                                    stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.PIPE,
                                    start_new_session=True)  # fmt: skip

    def port(self, process: subprocess.Popen[str]) -> int:
        """Wait until it is ready; return its port."""
        deadline = time.monotonic() + READY_SECONDS
        while not speaks_amqp091(self._port):
            if process.poll() is not None or time.monotonic() > deadline:
                lines = self.log.read_text().strip().splitlines() or ["it printed nothing"]
                raise BrokerUnavailable(
                    f"RabbitMQ did not get ready within {READY_SECONDS:.0f} s: {lines[-1].strip()}."
                )
            time.sleep(0.2)  # it tells nobody when it listens
        return self._port

    def control(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `rabbitmqctl` with this node as its own."""
        name = self._environment["RABBITMQ_NODENAME"]
        command = [str(RABBITMQ_SCRIPT.with_name("rabbitmqctl")), "-n", name, *words]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False, timeout=60)

    def close(self) -> None:
        """End what it needs besides its process."""
        processes.stop(self._epmd)


def start_rabbitmq(name: str, scratch: Path, http_port: int | None = None) -> Broker:
    """Start a RabbitMQ node; see `RabbitmqNode`."""
    return start_node(name, RabbitmqNode(scratch, http_port))


Starters = Mapping[str, Callable[[str, Path], Broker]]
"""How each broker is started: its name and a folder in, a running one out. They raise BrokerUnavailable."""
STARTERS: Starters = {
    COMPILED: start_penstock,
    INTERPRETED: start_penstock,
    RABBITMQ: start_rabbitmq,
}


def start(
    name: str, scratch: Path, stack: ExitStack, say: Callable[[str], None], starters: Starters = STARTERS
) -> Broker | None:
    """Start a broker until the stack unwinds; None where it cannot be, after a sentence that says why."""
    try:
        broker = starters[name](name, scratch)
    except BrokerUnavailable as reason:
        say(f"Without {name}: {reason}")
        return None
    stack.callback(broker.stop)
    say(f"{name}: {broker.title}, port {broker.port}")
    return broker


def start_all(
    names: list[str], scratch: Path, stack: ExitStack, say: Callable[[str], None], starters: Starters = STARTERS
) -> dict[str, Broker]:
    """Start those brokers that can be, until the stack unwinds."""
    started = {name: start(name, scratch, stack, say, starters) for name in names}
    return {name: broker for name, broker in started.items() if broker is not None}
