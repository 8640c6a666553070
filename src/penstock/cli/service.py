"""Commands about the broker as a service: its version, a sign of life, its health, its end, and where its logs are."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import penstock
from penstock.cli.common import control_session, print_result, say, say_json
from penstock.cli.looking import CONFIG_SHOW
from penstock.cli.parameters import Json, Url, command, option
from penstock.cli.tables import Colour, table
from penstock.errors import ConfigError, PenstockError
from penstock.settings.kind import SECONDS

ANSWER_S: Final = 10.0
"""Default seconds in which `ping` needs an answer."""
LOCAL: Final = "127.0.0.1"
"""Address of a URL that names none."""
STOP: Final = (
    "a broker ends by a signal, not by a command: `systemctl stop penstock`, `docker stop NAME`, "
    "or Ctrl-C or SIGTERM to `penstock serve`"
)
READ: Final = "`journalctl -u penstock`, `docker logs NAME` or `kubectl logs POD`"
HEALTH_COLOURS: Final[dict[str, Colour]] = {"status": lambda text: "good" if text == "ok" else "alarm"}


@command()
def version(as_json: Json) -> None:
    """Print the version and the build of this program; `penstock status` has those of the broker.

    For example: penstock version
    """
    found: dict[str, object] = {"version": penstock.__version__, "build": penstock.build()}
    print_result(as_json, found, f"penstock {found['version']} ({found['build']})")


@command()
def ping(
    timeout: Annotated[float, option("Give up after S seconds.", "S", kind=SECONDS, default=ANSWER_S)],
    as_json: Json,
    url: Url,
) -> None:
    """Log in at the broker, and print how long it took. Exit code 1: the broker did not answer, or refused the login.

    For example: penstock ping
    """
    begun = time.monotonic()
    with control_session(url, connect_timeout=timeout, timeout=timeout) as connection:
        took = time.monotonic() - begun
        server = connection.server_properties
    named = f"{server.get('product') or 'a broker'} {server.get('version') or ''}".strip()
    address = urlsplit(url).netloc.rpartition("@")[2] or LOCAL
    answer = {"product": server.get("product"), "version": server.get("version"), "address": address, "s": took}
    print_result(as_json, answer, f"{named} at {address} answered in {took * 1000:,.0f} ms")


@command()
def health(as_json: Json, url: Url) -> None:
    """Print the verdicts of all health checks. Exit code 1: a check has failed, or the broker did not answer.

    `penstock alarms` lists conditions that need a person. For example: penstock health
    """
    with control_session(url) as control:
        found = control.request("health")
    if as_json:
        say_json(found, indent=2)
    else:
        rows = [(each["check"], each["status"], each["reason"] or "") for each in found["checks"]]
        table(("check", "status", "reason"), rows, HEALTH_COLOURS)
    if found["status"] != "ok":
        sys.exit(1)


@command()
def stop(url: Url) -> None:
    """Print how to stop a broker: by a signal, which takes no connection.

    For example: penstock stop
    """
    raise ConfigError(STOP)


@command()
def where(as_json: Json, url: Url) -> None:
    """Print where the logs of the broker are, and the command that reads each.

    `penstock logs` is the same. For example: penstock logs where
    """
    settings: dict[str, Any] = {}
    reason = ""
    try:
        with control_session(url) as control:
            settings = {row["setting"]: row["value"] for row in control.request(CONFIG_SHOW)["start"]}
    except PenstockError as error:
        reason = str(error)
    rows = places_of(settings)
    if as_json:
        say_json([dict(zip(("log", "place", "read"), row, strict=True)) for row in rows])
    else:
        table(("log", "place", "read it with"), rows)
    if reason:
        say(f"penstock: the broker did not say where its files are: {reason}", err=True)


def places_of(settings: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the logs of a broker with these settings, with their places and commands; DATA for an unknown folder."""
    data = settings.get("data") or "DATA"
    none = "none: the broker has no data directory"
    in_memory = bool(settings) and not settings.get("data")

    def file(log: str) -> str:
        name = f"{log}-log"
        return str(settings.get(name) or (none if in_memory else f"{data}/{name}"))

    flow, audit = file("flow"), file("audit")
    return [
        ("broker", "standard error of `penstock serve`", READ),
        ("flow", flow, "-" if flow == none else f"penstock flow analyze {flow}"),
        ("audit", audit, "-" if audit == none else "lines of JSON: `tail -f`"),
    ]
