"""rabbitmqadmin of Debian's rabbitmq-server, against our HTTP API."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess
from tests.support.http_client import Web

SCRIPT = shutil.which("rabbitmqadmin")
pytestmark = pytest.mark.skipif(SCRIPT is None, reason="rabbitmqadmin is not installed (Debian: rabbitmq-server)")


def admin(web: Web, *words: str) -> str:
    host, port = web.address.split(":")
    assert SCRIPT is not None
    command = [sys.executable, "-W", "ignore", SCRIPT, "-H", host, "-P", port, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def listed(web: Web, kind: str, *columns: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(admin(web, "-f", "raw_json", "list", kind, *columns))
    return found


@pytest.mark.slow
def test_rabbitmqadmin_declares_publishes_gets_exports_imports_and_deletes(web: Web, name: str, tmp_path: Path) -> None:
    assert admin(web, "declare", "vhost", f"name={name}") == "vhost declared\n"
    admin(web, "declare", "queue", f"name={name}", "durable=true", 'arguments={"x-max-length": 100}')
    admin(web, "declare", "exchange", f"name={name}", "type=topic")
    admin(web, "declare", "binding", f"source={name}", f"destination={name}", "routing_key=a.#")
    assert admin(web, "publish", f"routing_key={name}", "payload=one") == "Message published\n"
    assert admin(web, "publish", f"exchange={name}", "routing_key=a.b", "payload=two") == "Message published\n"
    unrouted = admin(web, "publish", f"exchange={name}", "routing_key=z", "payload=three")
    assert unrouted == "Message published but NOT routed\n"
    assert {"name": name, "messages": 2} in listed(web, "queues", "name", "messages")
    got = json.loads(admin(web, "-f", "raw_json", "get", f"queue={name}", "count=5", "ackmode=ack_requeue_true"))
    assert [message["payload"] for message in got] == ["one", "two"]
    file = tmp_path / "exported.json"
    admin(web, "export", str(file))
    assert name in [queue["name"] for queue in json.loads(file.read_text())["queues"]]
    assert admin(web, "purge", "queue", f"name={name}") == "queue purged\n"
    admin(web, "delete", "binding", f"source={name}", "destination_type=queue", f"destination={name}",
          "properties_key=a.%23")  # fmt: skip
    admin(web, "delete", "queue", f"name={name}")
    admin(web, "delete", "exchange", f"name={name}")
    admin(web, "import", str(file))
    assert {"source": name, "destination": name, "routing_key": "a.#"} in listed(
        web, "bindings", "source", "destination", "routing_key"
    )
    admin(web, "delete", "vhost", f"name={name}")
    assert name not in [vhost["name"] for vhost in listed(web, "vhosts")]


@pytest.mark.parametrize(
    "kind",
    ["connections", "channels", "consumers", "exchanges", "queues", "bindings", "users", "vhosts", "permissions",
     "nodes", "parameters", "policies", "operator_policies", "vhost_limits"],
)  # fmt: skip
def test_rabbitmqadmin_lists_all_kinds_of_objects(served: BrokerProcess, web: Web, kind: str) -> None:
    assert listed(web, kind) or kind not in ("exchanges", "users", "vhosts", "permissions", "nodes")
    admin(web, "list", kind)
    admin(web, "-f", "long", "-d", "3", "list", kind)


def test_rabbitmqadmin_shows_the_overview(web: Web) -> None:
    assert "cluster_name" in admin(web, "show", "overview")
