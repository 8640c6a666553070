"""Brokers that suites may stop, start again and command, as other people's tests do with `rabbitmqctl` and `make`."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess

from bench import processes
from bench.brokers import RABBITMQ, Broker, BrokerUnavailable, PenstockNode, RabbitmqNode

ALARM = "a resource alarm that a test has set"
"""What `penstock why` says while a test has set an alarm."""


def free_ports() -> tuple[int, int]:
    """Return two ports that nobody listens on, for AMQP and HTTP."""
    return processes.free_port(), processes.free_port()


def _answer(words: list[str], code: int, output: str = "", error: str = "") -> CompletedProcess[str]:
    return CompletedProcess(words, code, output, error)


class ControlledBroker(Broker):
    """A running broker with its HTTP API that takes the commands of `rabbitmqctl`."""

    http_port: int

    def stop_node(self) -> CompletedProcess[str]:
        """Stop what speaks AMQP."""
        raise NotImplementedError

    def start_node(self) -> CompletedProcess[str]:
        """Start it again, at the same port."""
        raise NotImplementedError

    def set_alarm(self, source: str, on: bool) -> CompletedProcess[str]:
        """Set or clear the alarm of a resource: `memory` or `disk`."""
        raise NotImplementedError

    def control(self, words: list[str]) -> CompletedProcess[str]:
        """Do what `rabbitmqctl` with these words does."""
        raise NotImplementedError

    def make(self, words: list[str]) -> CompletedProcess[str]:
        """Do what the targets of RabbitMQ's Makefile do that tests call for."""
        given = dict(word.split("=", 1) for word in words if "=" in word)
        done = _answer(words, 0)
        for word in words:
            if word == "--version":
                return _answer(words, 0, "GNU Make, as far as tests need it\n")
            if word == "stop-rabbit-on-node":
                done = self.stop_node()
            elif word == "start-rabbit-on-node":
                done = self.start_node()
            elif word in ("set-resource-alarm", "clear-resource-alarm"):
                done = self.set_alarm(given["SOURCE"], word.startswith("set"))
            if done.returncode:
                break
        return done


PLUGINS = ("rabbitmq_shovel_management", "rabbitmq_federation_management")
"""What RabbitMQ has enabled where clients of its HTTP API are tested."""


class RabbitmqBroker(ControlledBroker):
    """A RabbitMQ node of our own; its commands are its own. `ports` are those of AMQP and HTTP."""

    def __init__(self, scratch: Path, ports: tuple[int, int] | None = None) -> None:
        port, self.http_port = ports or free_ports()
        self._node = RabbitmqNode(scratch, self.http_port, PLUGINS if ports else (), port=port)
        process = self._node.launch()
        try:
            super().__init__(RABBITMQ, self._node.title, self._node.port(process), process, self._node.close)
        except BaseException:
            processes.stop(process)
            self._node.close()
            raise

    def stop_node(self) -> CompletedProcess[str]:
        return self._node.control("stop_app")

    def start_node(self) -> CompletedProcess[str]:
        return self._node.control("start_app")

    def set_alarm(self, source: str, on: bool) -> CompletedProcess[str]:
        alarm = f"{{resource_limit, {source}, node()}}"
        call = f"rabbit_alarm:set_alarm({{{alarm}, []}})." if on else f"rabbit_alarm:clear_alarm({alarm})."
        return self._node.control("eval", call)

    def control(self, words: list[str]) -> CompletedProcess[str]:
        # Tests that are older than 3.8 do not expect a line of headings.
        extra = ["--no-table-headers"] if words[:1] == ["list_connections"] else []
        return self._node.control(*words, *extra)


class PenstockBroker(ControlledBroker):
    """A Penstock whose port stays; commands go by way of its HTTP API and of `penstock`."""

    def __init__(self, name: str, scratch: Path, ports: tuple[int, int] | None = None) -> None:
        port, self.http_port = ports or free_ports()
        self._node = PenstockNode(name, scratch, port=port, http_port=self.http_port)
        self._alarms: set[str] = set()
        process = self._node.launch()
        try:
            super().__init__(name, self._node.title, self._node.port(process), process)
        except BaseException:
            processes.stop(process)
            raise

    def stop_node(self) -> CompletedProcess[str]:
        processes.stop(self.process)
        return _answer(["stop"], 0)

    def start_node(self) -> CompletedProcess[str]:
        if self.process.poll() is not None:
            self.process = self._node.launch()
            self._node.port(self.process)
        return _answer(["start"], 0)

    def set_alarm(self, source: str, on: bool) -> CompletedProcess[str]:
        """Block whoever publishes, by the operator's gate, while any alarm is set."""
        before = bool(self._alarms)
        (self._alarms.add if on else self._alarms.discard)(source)
        if bool(self._alarms) == before:
            return _answer(["alarm", source], 0)
        words = ["block", "vhost", "/", "--reason", ALARM] if on else ["unblock", "vhost", "/"]
        return self._node.command(*words, "--url", f"amqp://guest:guest@127.0.0.1:{self.port}/")

    def control(self, words: list[str]) -> CompletedProcess[str]:
        match words:
            case ["list_connections", "-q", "pid", "peer_port"]:
                rows = json.loads(self._http("GET", "/connections"))
                return _answer(words, 0, "".join(f"{row['name']}\t{row['peer_port']}\n" for row in rows))
            case ["close_connection", name, reason]:
                self._http("DELETE", f"/connections/{urllib.parse.quote(name, safe='')}", reason)
                return _answer(words, 0)
            case ["set_vm_memory_high_watermark", share]:
                return self.set_alarm("memory", float(share) < 0.01)
        return _answer(words, 64, error=f"Penstock has nothing that does what `rabbitmqctl {' '.join(words)}` does.\n")

    def _http(self, method: str, path: str, reason: str = "") -> bytes:
        headers = {"Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}", "X-Reason": reason}
        url = f"http://127.0.0.1:{self.http_port}/api{path}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=20) as answer:
            said: bytes = answer.read()
        return said


def attempt(action: Callable[[list[str]], CompletedProcess[str]], words: list[str]) -> CompletedProcess[str]:
    """Do it; what goes wrong is an exit code and a sentence, as of a command."""
    try:
        return action(words)
    except (OSError, urllib.error.URLError, BrokerUnavailable, subprocess.SubprocessError) as reason:
        return _answer(words, 70, error=f"{' '.join(words)}: {reason}\n")


def start(
    name: str, scratch: Path, stack: ExitStack, say: Callable[[str], None], ports: tuple[int, int] | None = None
) -> ControlledBroker | None:
    """Start a broker until the stack unwinds; None where it cannot be, after a sentence that says why."""
    try:
        broker = RabbitmqBroker(scratch, ports) if name == RABBITMQ else PenstockBroker(name, scratch, ports)
    except BrokerUnavailable as reason:
        say(f"Without {name}: {reason}")
        return None
    stack.callback(broker.stop)
    say(f"{name}: {broker.title}, port {broker.port}")
    return broker
