"""The HTTP listener: its port, its end, and what is imported where it is not asked for."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving
from tests.support.http_client import Web


def test_stopping_broker_leaves_at_once_though_a_request_is_held(tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        web = Web(broker.http)
        arguments = {"capacity-messages": 1, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0}
        web.declare("q", **arguments)
        web.publish("q")
        host, port = web.address.split(":")
        body = b'{"properties":{},"routing_key":"q","payload":"x","payload_encoding":"string"}'
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"POST /api/exchanges/%%2F/amq.default/publish HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (web.login.encode(), len(body), body)
            )
            eventually(lambda: web.queue("q")["penstock"]["gate"]["waiting"], "it is held")
            assert broker.stop() == 0
        assert "Traceback" not in broker.log()


def test_port_that_is_in_use_is_told_in_a_sentence(served: BrokerProcess, web: Web) -> None:
    done = penstock_command("serve", "--memory", "--listen", "127.0.0.1:0", "--http", web.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the port is in use" in done.stderr
    wrong = penstock_command("serve", "--memory", "--listen", "127.0.0.1:0", "--http", "8080")
    assert wrong.stderr == "penstock: --http 8080 is not HOST:PORT, such as 127.0.0.1:5672\n"


def test_nothing_of_http_is_imported_where_it_is_not_asked_for() -> None:
    program = (
        "import asyncio, sys, penstock\n"
        "async def run():\n"
        "    async with penstock.Broker(listen='127.0.0.1:0'):\n"
        "        print([name for name in ('starlette', 'uvicorn', 'h11', 'anyio') if name in sys.modules])\n"
        "asyncio.run(run())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
