"""What suites expect to find on a broker, as their authors' scripts make it: over the HTTP API, on either broker."""

from __future__ import annotations

import base64
import json
import urllib.request

Request = tuple[str, dict[str, object]]
"""A path below /api that is PUT, and its body."""
USER = ("guest", "guest")


def access(vhost: str, user: str) -> Request:
    """Return the request that allows a user everything in a virtual host, whose name is quoted."""
    return f"permissions/{vhost}/{user}", {"configure": ".*", "write": ".*", "read": ".*"}


CLUSTER: Request = ("cluster-name", {"name": "rabbitmq@localhost"})
PREPARATIONS: dict[str, tuple[Request, ...]] = {
    "rabbit-hole": (
        CLUSTER,
        ("vhosts/rabbit%2Fhole", {}),
        ("users/policymaker", {"password": "policymaker", "tags": "policymaker"}),
        access("rabbit%2Fhole", "guest"),
        access("rabbit%2Fhole", "policymaker"),
        access("%2F", "policymaker"),
    ),
    "rabbitmqadmin": (CLUSTER, ("vhosts/rust%2Frabbitmqadmin", {}), access("rust%2Frabbitmqadmin", "guest")),
    "rabbitmq_http_client": (
        CLUSTER,
        ("users/rust3", {"password": "rust3", "tags": ""}),
        access("%2F", "rust3"),
        ("vhosts/rust%2Fhttp%2Fapi%2Fclient", {}),
        access("rust%2Fhttp%2Fapi%2Fclient", "guest"),
    ),
}
"""Requests by the suite that needs them; the suite runs on a broker of its own."""


def put(http_port: int, path: str, body: dict[str, object]) -> None:
    """Send one request. Raises OSError where the broker refuses it."""
    login = base64.b64encode(":".join(USER).encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{http_port}/api/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
    with urllib.request.urlopen(request, timeout=20):
        return


def prepare(suite: str, http_port: int) -> None:
    """Make what a suite expects."""
    for path, body in PREPARATIONS.get(suite, ()):
        put(http_port, path, body)
