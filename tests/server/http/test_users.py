"""Users and permissions in RabbitMQ's form."""

from __future__ import annotations

from tests.support.http_client import Web


def test_users_and_permissions_are_listed(web: Web) -> None:
    assert web.get("/users") == [{"name": "guest", "tags": ["administrator"], "limits": {}}]
    assert web.get("/users/guest") == {"name": "guest", "tags": ["administrator"], "limits": {}}
    everything = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    assert everything in web.get("/permissions")
    assert everything in web.get("/users/guest/permissions")
    assert web.get("/permissions/%2F/guest") == everything
    assert web.ask("GET", "/users/nobody").status == 404
