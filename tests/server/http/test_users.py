"""Users in RabbitMQ's form, by its paths."""

from __future__ import annotations

from urllib.parse import quote

from penstock.access.password_hash import read_hash
from tests.support.brokers import BrokerProcess, some_name
from tests.support.http_client import Web
from tests.support.raw_channel import Connection


def test_guest_is_there_alone(web: Web) -> None:
    guest = web.get("/users/guest")
    assert (guest["name"], guest["tags"], guest["limits"]) == ("guest", ["administrator"], {})
    everything = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    assert everything in web.get("/permissions")
    assert everything in web.get("/users/guest/permissions")
    assert web.get("/permissions/%2F/guest") == everything
    assert web.ask("GET", "/users/nobody").status == 404


def test_user_is_added_logs_in_and_is_deleted(web: Web, served: BrokerProcess) -> None:
    name = some_name("user")
    web.do("PUT", f"/users/{name}", {"password": "sec/ret", "tags": "management, other"}, 201)
    shown = web.get(f"/users/{name}")
    assert (shown["tags"], shown["hashing_algorithm"]) == (["management", "other"], "scrypt")
    assert "sec/ret" not in str(shown)
    assert name in [user["name"] for user in web.get("/users/without-permissions")]
    web.do("PUT", f"/permissions/%2F/{name}", {"configure": "", "write": "", "read": ""}, 201)
    with Connection(f"amqp://{name}:{quote('sec/ret', '')}@{served.host}:{served.port}/"):
        web.do("PUT", f"/users/{name}", {"password": "another", "tags": []})
    assert web.get("/whoami")["name"] == "guest"
    web.do("DELETE", f"/users/{name}")
    assert web.ask("DELETE", f"/users/{name}").status == 404


def test_users_are_listed_in_pages_and_columns(web: Web) -> None:
    name = some_name("paged")
    names = [f"{name}-{letter}" for letter in "abc"]
    for each in names:
        web.do("PUT", f"/users/{each}", {"password": "x", "tags": ""}, 201)
    for path in ("/users", "/users/without-permissions"):
        page = web.get(f"{path}?page=2&page_size=2&name={name}&sort=name&columns=name")
        assert (page["filtered_count"], page["page_count"], page["item_count"]) == (3, 2, 1)
        assert page["items"] == [{"name": names[2]}]
    for each in names:
        web.do("DELETE", f"/users/{each}")


def test_user_comes_with_a_hash_of_rabbitmq(web: Web) -> None:
    name = some_name("user")
    given = web.get("/auth/hash_password/a%2Fb")["ok"]
    hashed = read_hash(given)
    assert hashed.verify("a/b")
    web.do("PUT", f"/users/{name}", {"password_hash": given, "tags": []}, 201)
    shown = web.get(f"/users/{name}")
    assert (shown["password_hash"], shown["hashing_algorithm"]) == (given, "rabbit_password_hashing_sha256")
    other = some_name("user")
    web.do("PUT", f"/users/{other}", {"password_hash": "", "tags": ""}, 201)
    said = web.do("POST", "/users/bulk-delete", {"users": [other, "guest"]}, 400).reason
    assert "user 'guest' is the last administrator" in said
    assert said.endswith("; 1 others are deleted")
    assert web.ask("GET", f"/users/{other}").status == 404
    web.do("POST", "/users/bulk-delete", {"users": [name, "nobody"]})
    assert web.ask("GET", f"/users/{name}").status == 404
