"""Queues, exchanges, bindings and virtual hosts over HTTP, on a real port."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.http_client import Web
from tests.support.raw_channel import Connection


def test_queue_is_declared_once_with_the_requested_attributes(web: Web, name: str) -> None:
    body = {"durable": True, "arguments": {"capacity-messages": 100, "hold-deadline": 5}}
    web.do("PUT", f"/queues/%2F/{name}", body, status=201)
    web.do("PUT", f"/queues/%2F/{name}", body, status=204)
    queue = web.get(f"/queues/%2F/{name}")
    assert queue["name"] == name
    assert queue["durable"] is True
    assert queue["arguments"] == {"capacity-messages": 100, "hold-deadline": 5}
    assert queue["penstock"]["capacity"] == {"messages": 100, "bytes": None}
    assert queue["penstock"]["gate"]["open"] is True
    assert queue["consumer_details"] == []
    differs = web.ask("PUT", f"/queues/%2F/{name}", {"durable": False})
    assert (differs.status, differs.json["error"]) == (400, "bad_request")
    assert "inequivalent arg 'durable'" in differs.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        (b"[]", "not_json"),
        ({"durable": "yes"}, "'durable' must be true or false"),
        ({"arguments": [1]}, "'arguments' must be an object"),
        ({"arguments": {"x-max-length": "many"}}, "x-max-length"),
        ({"arguments": {"capacity-bites": 1}}, "did you mean capacity-bytes?"),
        ({"arguments": {"k": 1 << 70}}, "arguments"),
        (b'{"arguments": {"k": "\\ud800"}}', "half a character"),
    ],
)
def test_invalid_declaration_is_refused_in_a_sentence_and_nothing_declared(
    web: Web, name: str, body: object, reason: str
) -> None:
    answer = web.ask("PUT", f"/queues/%2F/{name}", body)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert reason in answer.reason
    assert web.ask("GET", f"/queues/%2F/{name}").status == 404


def test_reserved_and_unknown_names_have_different_errors(web: Web, name: str) -> None:
    assert web.ask("PUT", "/queues/%2F/amq.mine", {}).status == 401
    assert web.ask("PUT", f"/queues/nowhere/{name}", {}).json["error"] == "not_found"
    assert web.ask("PUT", "/exchanges/%2F/amq.mine", {"type": "direct"}).status == 401
    assert web.ask("DELETE", "/exchanges/%2F/amq.direct").status == 401
    wrong = web.ask("PUT", "/exchanges/%2F/mine", {"type": "topics"}).reason
    assert "unknown exchange type 'topics'; did you mean 'topic'?" in wrong
    assert web.ask("PUT", f"/queues/%2F/{'n' * 256}", {}).status == 400
    missing = web.ask("GET", "/queues/%2F/nothing-of-that-name")
    assert (missing.status, missing.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})


def test_names_may_have_slashes_blanks_and_letters_of_any_script(web: Web, name: str) -> None:
    odd = f"{name}/a b/größe%2F"
    web.do("PUT", f"/queues/%2F/{quote(odd, safe='')}", {}, status=201)
    assert web.get(f"/queues/%2F/{quote(odd, safe='')}")["name"] == odd
    web.do("DELETE", f"/queues/%2F/{quote(odd, safe='')}")


def test_conditions_of_deleting_are_kept(web: Web, name: str) -> None:
    web.do("PUT", f"/queues/%2F/{name}", {}, status=201)
    assert web.publish(name).json == {"routed": True}
    assert "not empty" in web.ask("DELETE", f"/queues/%2F/{name}?if-empty=true").reason
    web.do("DELETE", f"/queues/%2F/{name}")
    assert web.ask("DELETE", f"/queues/%2F/{name}").status == 404


def test_exclusive_queue_is_seen_and_left_alone(served: BrokerProcess, web: Web) -> None:
    with Connection(served.url) as connection:
        mine = connection.channel().queue_declare(exclusive=True)[0]
        queue = web.get(f"/queues/%2F/{mine}")
        assert queue["exclusive"] is True
        assert queue["owner_pid_details"]["peer_host"] == "127.0.0.1"
        assert "exclusive" in web.ask("DELETE", f"/queues/%2F/{mine}").reason
        assert web.ask("DELETE", f"/queues/%2F/{mine}/contents").status == 400


def test_single_active_consumer_is_named_and_other_consumers_wait(served: BrokerProcess, web: Web, name: str) -> None:
    web.do("PUT", f"/queues/%2F/{name}", {"arguments": {"x-single-active-consumer": True}}, status=201)
    with Connection(served.url) as connection:
        channel = connection.channel()
        first, second = channel.consume(name), channel.consume(name)
        queue = web.get(f"/queues/%2F/{name}")
    assert queue["single_active_consumer_tag"] == first
    states = {each["consumer_tag"]: (each["active"], each["activity_status"]) for each in queue["consumer_details"]}
    assert states == {first: (True, "single_active"), second: (False, "waiting")}


@pytest.mark.parametrize(
    "path",
    [
        "queues/%2F/nosuch/bindings",
        "exchanges/%2F/nosuch/bindings/source",
        "exchanges/%2F/nosuch/bindings/destination",
        "bindings/%2F/e/nosuch/q/nosuch",
        "bindings/%2F/e/amq.direct/q/nosuch",
        "bindings/%2F/e/nosuch/e/amq.direct",
        "bindings/%2F/e/amq.direct/e/nosuch",
    ],
)
def test_bindings_of_missing_names_are_an_empty_list(web: Web, path: str) -> None:
    assert web.get(f"/{path}") == []
    assert web.ask("GET", f"/{path.replace('%2F', 'nosuch')}").status == 404


def test_bindings_to_an_unknown_kind_are_not_found(web: Web) -> None:
    assert web.ask("GET", "/bindings/%2F/e/amq.direct/x/nosuch").status == 404


def test_bindings_in_all_their_forms(web: Web, name: str) -> None:
    web.do("PUT", f"/exchanges/%2F/{name}", {"type": "topic", "durable": True}, status=201)
    web.do("PUT", f"/exchanges/%2F/{name}", {"type": "topic", "durable": True}, status=204)
    web.do("PUT", f"/queues/%2F/{name}", {}, status=201)
    between = f"/bindings/%2F/e/{name}/q/{name}"
    made = web.do("POST", between, {"routing_key": "a.#"}, status=201)
    assert made.headers["location"] == f"{name}/a.%2523"
    web.do("POST", between, {}, status=201)
    web.do("POST", between, {"routing_key": "b", "arguments": {"k": 1}}, status=201)
    web.do("POST", f"/bindings/%2F/e/amq.direct/e/{name}", {"routing_key": "x y"}, status=201)
    found = {each["properties_key"]: each for each in web.get(between)}
    assert found["a.%23"]["routing_key"] == "a.#"
    assert found["~"] == {
        "source": name, "vhost": "/", "destination": name, "destination_type": "queue", "routing_key": "",
        "arguments": {}, "properties_key": "~",
    }  # fmt: skip
    with_arguments = next(key for key in found if key.startswith("b~"))
    assert web.get(f"{between}/{quote(with_arguments, safe='')}")["arguments"] == {"k": 1}
    assert len(web.get(f"/queues/%2F/{name}/bindings")) == 4  # and the one to the default exchange
    assert len(web.get(f"/exchanges/%2F/{name}/bindings/source")) == 3
    assert web.get(f"/exchanges/%2F/{name}/bindings/destination")[0]["routing_key"] == "x y"
    assert web.get(f"/bindings/%2F/e/amq.direct/e/{name}")[0]["destination_type"] == "exchange"
    assert web.get(f"/bindings/%2F/e/amq.default/q/{name}")[0]["routing_key"] == name
    assert web.get(f"/bindings/%2F/e/amq.direct/q/{name}") == []
    web.do("POST", between, {"routing_key": "c~1 d"}, status=201)
    web.do("DELETE", f"{between}/c~1+d")
    for wrong in ("b", "b~", "b~00", "b~b", "c~1+d"):
        assert web.ask("DELETE", f"{between}/{wrong}").status == 404
    web.do("POST", between, {"routing_key": "~"}, status=201)
    web.do("DELETE", f"{between}/~")
    assert [each["routing_key"] for each in web.get(between) if not each["routing_key"].strip("~")] == ["~"]
    web.do("DELETE", f"{between}/{quote('%7E', safe='')}")
    web.do("POST", between, {}, status=201)
    web.do("DELETE", f"{between}/{quote(with_arguments, safe='')}")
    web.do("DELETE", f"{between}/a.%2523")
    assert web.ask("DELETE", f"{between}/a.%2523").status == 404
    assert web.ask("DELETE", f"/bindings/%2F/e/amq.default/q/{name}/{name}").status == 401
    assert web.ask("POST", f"/bindings/%2F/e/{name}/q/nothing", {}).reason == "no queue 'nothing' in vhost '/'"
    assert "in use" in web.ask("DELETE", f"/exchanges/%2F/{name}?if-unused=true").reason
    web.do("DELETE", f"/exchanges/%2F/{name}")
    assert web.get(f"/queues/%2F/{name}/bindings")[0]["source"] == ""


def test_delayed_retry_is_refused_in_a_declaration_and_in_an_import(web: Web, name: str) -> None:
    queue = {"name": name, "vhost": "/", "durable": True, "auto_delete": False}
    retried = {"queues": [{**queue, "name": f"{name}-2", "arguments": {"x-delayed-retry-type": "failed"}}]}
    refused = web.ask("POST", "/definitions", retried)
    assert refused.status == 400
    assert "x-delayed-retry-type of RabbitMQ is not supported here" in refused.json["reason"]
    put = web.ask("PUT", f"/queues/%2F/{name}-3", {"arguments": {"x-delayed-retry-min": 1000}})
    assert (put.status, "set retry-delay and retry-delay-max" in put.json["reason"]) == (400, True)
