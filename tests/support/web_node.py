"""A node with two shards and its HTTP API, as a user starts it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.brokers import BrokerProcess, eventually, serving, some_name
from tests.support.http_client import Web

ADMIN = "administrator"


class WebNode:
    """Node with the virtual host / in one shard, and `other` in the second one."""

    def __init__(self, process: BrokerProcess, metrics: Path) -> None:
        self.process = process
        self.web = Web(process.http)
        self.metrics = metrics
        """Unix socket of metrics and probes."""

    def user(self, name: str, tags: str = ADMIN, *vhosts: str) -> Web:
        """Declare a user with all permissions in these virtual hosts; return its client."""
        self.web.do("PUT", f"/users/{name}", {"password": name, "tags": tags}, 201)
        for vhost in vhosts:
            rights = {"configure": ".*", "write": ".*", "read": ".*"}
            self.web.do("PUT", f"/permissions/{vhost}/{name}", rights, 201)
        return Web(self.process.http, name, name)

    def shard_of(self, vhost: str) -> str:
        """Return the shard of a virtual host, as metrics have it."""
        text = self.web.fetch("/metrics/per-object").text
        found = re.search(rf'shard="(\w+)",vhost="{vhost}",exchange="amq\.direct"', text)
        assert found is not None, text[:2000]
        return found[1]

    def pid_of(self, shard: str) -> int:
        """Return the process of a shard."""
        return int(re.findall(rf"shard '{shard}' serves \(process (\d+)\)", self.process.log())[-1])

    def kill(self, shard: str) -> None:
        """Kill the process of a shard."""
        os.kill(self.pid_of(shard), signal.SIGKILL)

    @contextmanager
    def paused(self, shard: str) -> Iterator[None]:
        """Have the process of a shard stand still; its node kills one that does so for 10 s."""
        pid = self.pid_of(shard)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def web_node(folder: Path, *options: str) -> Iterator[WebNode]:
    """Run a node with two shards, each of which has a virtual host."""
    data, metrics = str(folder / some_name("data")), folder / some_name("metrics")
    http = ("--http", "127.0.0.1:0", "--metrics-listen", f"unix:{metrics}")
    with serving(folder, "--shards", "2", "--data", data, *http, *options) as process:
        node = WebNode(process, metrics)
        eventually(lambda: len(process.logged("PST-2080")) == 2, "both shards serve")
        node.web.do("PUT", "/vhosts/other", {}, 201)
        assert node.shard_of("/") != node.shard_of("other")
        yield node
