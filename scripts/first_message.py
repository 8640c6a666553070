"""Try an installed Penstock as its first user would: import, command line, broker, first message, HTTP API.

Run it with the Python that Penstock is installed for, with pika beside it. It imports nothing of this repository.
"""

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("penstock")
BODY = b"one order"
STOP_S = 30.0
"""Seconds until a broker that does not answer or stop is given up."""


class TrialError(Exception):
    """A step that did not give what it must."""


def expect(seen: object, wanted: object, what: str) -> None:
    """Raise TrialError unless a step gave what it must."""
    if seen != wanted:
        raise TrialError(f"{what}: {seen!r} instead of {wanted!r}")


def environment() -> dict[str, str]:
    """Return an environment in which only what is installed is imported."""
    dropped = ("PYTHONPATH", "PENSTOCK_URL")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def command(*words: str) -> str:
    """Return what the installed command prints. Raises TrialError if it fails."""
    done = subprocess.run([str(COMMAND), *words], env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise TrialError(f"penstock {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def check_form(form: str) -> str:
    """Import Penstock, and ask its command, which form is installed; return the version line."""
    import penstock

    found = "compiled" if penstock.compiled() else "interpreted"
    expect(found, form, f"penstock.compiled() of {penstock.__file__}")
    line = command("--version")
    expect(line, f"penstock {penstock.__version__} ({penstock.build()})", "penstock --version")
    return line


def first_message(url: str) -> None:
    """Publish a persistent message with pika, confirmed, and get it back."""
    import pika  # type: ignore[import-untyped,unused-ignore]

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True, arguments={"capacity-messages": 5})
    channel.confirm_delivery()
    channel.basic_publish("", "orders", BODY, pika.BasicProperties(delivery_mode=2), mandatory=True)
    _, _, body = channel.basic_get("orders", auto_ack=True)
    expect(body, BODY, "the body that pika got")
    connection.close()


def fetch(url: str) -> tuple[int, bytes]:
    """Return the status and the body of a GET as guest."""
    token = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
    try:
        with urllib.request.urlopen(request, timeout=STOP_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def check_http(url: str) -> str:
    """Read the overview of the HTTP API, and the console with one of its scripts; return what answered."""
    status, body = fetch(f"{url}/api/overview")
    expect(status, 200, "the status of /api/overview")
    overview: dict[str, Any] = json.loads(body)
    expect(overview["product_name"], "Penstock", "the product of /api/overview")
    status, body = fetch(f"{url}/")
    expect((status, b"<html" in body.lower()), (200, True), "the page of the console")
    scripts = re.findall(rb'src="(/static/[^"]+\.js)"', body)
    expect(bool(scripts), True, "scripts in the page of the console")
    status, _ = fetch(url + scripts[0].decode())
    expect(status, 200, f"the status of {scripts[0].decode()}")
    return "/api/overview and the console answer"


def try_broker(folder: Path) -> str:
    """Start a broker with a store, use it by AMQP, command line and HTTP, and stop it; return its ready line."""
    log = folder / "log"
    words = ["serve", "--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with log.open("w") as errors:
        broker = subprocess.Popen(
            [str(COMMAND), *words], env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert broker.stdout is not None
    try:
        ready = broker.stdout.readline().strip()
        if not ready.startswith("ready"):
            raise TrialError(f"the broker did not get ready: {ready} {log.read_text()}")
        amqp, http = (next(word for word in ready.split() if word.startswith(kind)) for kind in ("amqp://", "http://"))
        url = amqp.replace("amqp://", "amqp://guest:guest@") + "/"
        first_message(url)
        listed = json.loads(command("list", "queues", "--json", "--url", url))
        expect("orders" in json.dumps(listed), True, "orders in penstock queues list")
        said = check_http(http)
        broker.terminate()
        expect(broker.wait(STOP_S), 0, "the exit code of the broker")
    finally:
        broker.kill()
        broker.wait()
        broker.stdout.close()
    return said


def main() -> int:
    """Try what is installed; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", choices=("compiled", "interpreted"), required=True, help="what must be installed")
    form = parser.parse_args().form
    start = time.monotonic()
    try:
        print(check_form(form), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            print(try_broker(Path(folder)))
    except TrialError as error:
        print(f"the installed Penstock fails: {error}", file=sys.stderr)
        return 1
    print(f"the first message came through; {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
