"""Exchanges: declared, declared again, refused, deleted; alternates."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.routing_helpers import Routes

pytestmark = pytest.mark.clients


def refusal(channel: BlockingChannel, method: str, *words: Any, **more: Any) -> tuple[int, str]:
    """Call a method of the channel that must close it; returns code and text."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        getattr(channel, method)(*words, **more)
    return caught.value.reply_code, caught.value.reply_text


# Declaring

PREDECLARED = ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace"]


@pytest.mark.parametrize("exchange", PREDECLARED)
def test_predeclared_are_there_and_durable(channel: BlockingChannel, exchange: str) -> None:
    channel.exchange_declare(exchange, passive=True)
    kind = {"match": "headers", "trace": "topic"}.get(exchange.rpartition(".")[2], exchange.removeprefix("amq."))
    channel.exchange_declare(exchange, kind, durable=True, internal=exchange == "amq.rabbitmq.trace")


def test_exchange_of_the_broker_alone_refuses_publishes(routes: Routes) -> None:
    assert refusal(routes.channel, "basic_publish", "amq.rabbitmq.trace", "x", b"") == (
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
    )


@pytest.mark.parametrize(
    ("method", "words", "code", "text"),
    [
        (
            "exchange_declare",
            {"exchange": "amq.mine"},
            403,
            "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
        ),
        ("exchange_declare", {"exchange": ""}, 403, "operation not permitted on the default exchange"),
        ("exchange_declare", {"exchange": "\r\n"}, 403, "operation not permitted on the default exchange"),
        ("exchange_declare", {"exchange": "", "passive": True}, 403, "operation not permitted on the default exchange"),
        ("exchange_declare", {"exchange": "none", "passive": True}, 404, "no exchange 'none' in vhost '/'"),
        ("exchange_delete", {"exchange": ""}, 403, "operation not permitted on the default exchange"),
        (
            "exchange_delete",
            {"exchange": "amq.topic"},
            403,
            "deletion of system exchange 'amq.topic' in vhost '/' not allowed",
        ),
        (
            "exchange_delete",
            {"exchange": "amq.none"},
            403,
            "deletion of system exchange 'amq.none' in vhost '/' not allowed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("exchange_") else "",
)
def test_invalid_exchange_declaration_or_deletion_is_refused(
    channel: BlockingChannel, method: str, words: dict[str, Any], code: int, text: str
) -> None:
    found, said = refusal(channel, method, **words)
    assert (found, said.partition(" - ")[2]) == (code, text)


@pytest.mark.parametrize("kind", ["x-recent-history", "odd", ""])
def test_type_that_there_is_not_is_406_as_in_rabbitmq_4(
    channel: BlockingChannel, name: str, ours: bool, kind: str
) -> None:
    if ours:
        code, text = refusal(channel, "exchange_declare", name, kind)
        assert (code, text.startswith(f"PRECONDITION_FAILED - unknown exchange type '{kind}'")) == (406, True)
    else:  # Before 4 it closes the connection.
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"\(503, "):
            channel.exchange_declare(name, kind)


@pytest.mark.parametrize("odd", ["ä €", "a/b?c#d*", "n" * 240, " "])
def test_names_may_have_any_characters(routes: Routes, odd: str) -> None:
    exchange = routes.exchange(odd[: 250 - len(routes.name)], "fanout")
    routes.channel.queue_declare(routes.of("q"), exclusive=True)
    routes.channel.queue_bind(routes.of("q"), exchange)
    routes.channel.basic_publish(exchange, "", b"x")
    found = routes.take("q")
    assert found[0].exchange == exchange


def test_line_ends_are_left_out_of_names(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(f"{name}\r\n-x", "fanout", auto_delete=True)
    channel.exchange_declare(f"{name}-x", passive=True)
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, f"{name}-\nx")
    channel.exchange_delete(f"\r{name}-x")
    assert refusal(channel, "exchange_declare", f"{name}-x", passive=True)[0] == 404


# Declaring again


def test_exchange_declared_again_is_no_error_and_passive_checks_the_name_only(routes: Routes) -> None:
    for _ in range(2):
        routes.exchange("x", "topic", alternate="other", durable=True)
    routes.channel.exchange_declare(routes.of("x"), "fanout", passive=True)


@pytest.mark.parametrize(
    ("argument", "value", "received", "current"),
    [
        ("exchange_type", "fanout", "fanout", "topic"),
        ("durable", False, "false", "true"),
        ("auto_delete", True, "true", "false"),
        ("internal", True, "true", "false"),
    ],
)
def test_another_declaration_of_the_same_name_is_406(
    channel: BlockingChannel, argument: str, value: object, received: str, current: str
) -> None:
    wanted = {"exchange_type": "topic", "durable": True} | {argument: value}
    assert refusal(channel, "exchange_declare", "amq.topic", **wanted) == (
        406,
        f"PRECONDITION_FAILED - inequivalent arg '{argument.removeprefix('exchange_')}' for exchange 'amq.topic' "
        f"in vhost '/': received '{received}' but current is '{current}'",
    )


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("a", "b", "received 'b' but current is 'a'"),
        ("a", 5, "received '5' but current is 'a'"),
        ("a", None, "received none but current is the value 'a' of type 'longstr'"),
        (None, "b", "received the value 'b' of type 'longstr' but current is none"),
    ],
)
def test_another_alternate_is_406(
    channel: BlockingChannel, name: str, first: str | None, second: object, said: str
) -> None:
    def arguments(alternate: object) -> dict[str, Any]:
        return {} if alternate is None else {"alternate-exchange": alternate}

    channel.exchange_declare(name, "fanout", arguments=arguments(first))
    try:
        assert refusal(channel, "exchange_declare", name, "fanout", arguments=arguments(second)) == (
            406,
            f"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{name}' in vhost '/': {said}",
        )
    finally:
        channel.connection.channel().exchange_delete(name)


def test_exchange_arguments_of_other_names_are_not_compared(channel: BlockingChannel, name: str) -> None:
    for arguments in ({"x-mine": 1}, {"x-mine": 2}, {}):
        channel.exchange_declare(name, "fanout", arguments=arguments)
    channel.exchange_delete(name)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, "signedint"),
        (1 << 40, "long"),
        (True, "bool"),
        (None, "void"),
        (["a"], "array"),
        ({"a": 1}, "table"),
        (b"octets", "binary"),
    ],
)
def test_alternate_of_another_type_than_text_is_406(
    channel: BlockingChannel, name: str, value: object, kind: str
) -> None:
    assert refusal(channel, "exchange_declare", name, "fanout", arguments={"alternate-exchange": value}) == (
        406,
        f"PRECONDITION_FAILED - invalid type '{kind}' for arg 'alternate-exchange' in exchange '{name}' in vhost '/'",
    )
    assert refusal(channel.connection.channel(), "exchange_declare", name, passive=True)[0] == 404


# Deleting


def test_deleting_an_unknown_exchange_is_no_error(channel: BlockingChannel, name: str) -> None:
    channel.exchange_delete(name)
    channel.exchange_delete(name, if_unused=True)


def test_exchange_that_is_a_source_is_in_use_and_a_destination_is_not(routes: Routes) -> None:
    routes.bind("q", "amq.fanout")
    for short in ("source", "destination"):
        routes.channel.exchange_declare(routes.of(short), "fanout")
    routes.lead("source", "destination")
    beside = routes.channel.connection.channel()
    code, text = refusal(beside, "exchange_delete", routes.of("source"), if_unused=True)
    assert (code, f"exchange '{routes.of('source')}' in vhost '/' in use" in text) == (406, True)
    routes.channel.exchange_delete(routes.of("destination"), if_unused=True)
    routes.channel.exchange_delete(routes.of("source"), if_unused=True)


def test_publish_to_a_deleted_exchange_is_404(routes: Routes) -> None:
    routes.exchange("x", "fanout")
    routes.bind("q", "x")
    assert routes.reached("x") == "q"
    routes.channel.exchange_delete(routes.of("x"))
    assert refusal(routes.channel, "basic_publish", routes.of("x"), "", b"") == (
        404,
        f"NOT_FOUND - no exchange '{routes.of('x')}' in vhost '/'",
    )


def test_exchange_declared_again_after_deletion_has_no_bindings(routes: Routes) -> None:
    routes.exchange("x", "fanout")
    routes.bind("q", "x")
    assert routes.reached("x") == "q"
    routes.channel.exchange_delete(routes.of("x"))
    routes.exchange("x", "direct")
    assert routes.reached("x") == ""
    routes.bind("q", "x", "k")
    assert routes.reached("x", "k") == "q"


def gone(routes: Routes, short: str) -> bool:
    try:
        routes.channel.connection.channel().exchange_declare(routes.of(short), passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        return error.reply_code == 404
    return False


def test_auto_delete_exchange_goes_with_its_last_binding_and_takes_its_sources(routes: Routes) -> None:
    for short in ("first", "second", "third"):
        routes.exchange(short, "fanout")
    routes.lead("first", "second")
    routes.lead("second", "third")
    assert not gone(routes, "third"), "one that never had a binding stays"
    routes.bind("q", "third", "a")
    routes.bind("q", "third", "b")
    routes.channel.queue_unbind(routes.of("q"), routes.of("third"), "a")
    assert routes.reached("first") == "q"
    routes.channel.queue_unbind(routes.of("q"), routes.of("third"), "b")
    assert [gone(routes, short) for short in ("first", "second", "third")] == [True, True, True]


def test_auto_delete_exchange_goes_with_the_queue_that_it_led_to(routes: Routes) -> None:
    routes.exchange("x", "fanout")
    routes.bind("q", "x")
    routes.channel.queue_delete(routes.of("q"))
    assert gone(routes, "x")


# Internal


def test_internal_exchange_gets_messages_of_other_exchanges(routes: Routes) -> None:
    routes.exchange("inner", "fanout", internal=True)
    routes.exchange("outer", "direct", alternate="inner")
    routes.bind("q", "inner")
    assert routes.reached("outer", "nobody's") == "q"
    routes.lead("outer", "inner", "k")
    assert routes.reached("outer", "k") == "q"
    assert refusal(routes.channel, "basic_publish", routes.of("inner"), "", b"") == (
        403,
        f"ACCESS_REFUSED - cannot publish to internal exchange '{routes.of('inner')}' in vhost '/'",
    )


# Alternates


def test_alternate_exchange_gets_messages_without_a_binding(routes: Routes) -> None:
    routes.exchange("rest", "fanout")
    routes.exchange("x", "direct", alternate="rest")
    routes.bind("known", "x", "k")
    routes.bind("others", "rest")
    assert routes.reached("x", "k") == "known"
    assert routes.reached("x", "other") == "others"


def test_alternates_follow_one_another_and_a_circle_ends(routes: Routes) -> None:
    routes.exchange("a", "direct", alternate="b")
    routes.exchange("b", "topic", alternate="c")
    routes.exchange("c", "headers", alternate="a")
    routes.bind("q", "c", "", {"x-match": "any", "h": 1})
    assert routes.reached("a", "k", {"h": 1}) == "q"
    assert routes.reached("a", "k") == ""
    routes.bind("r", "a", "k")
    assert routes.reached("c", "k") == "r"


def test_alternate_exchange_may_be_declared_later_and_deleted(routes: Routes) -> None:
    routes.exchange("x", "direct", alternate="later")
    assert routes.reached("x", "k") == ""
    routes.exchange("later", "fanout")
    routes.bind("q", "later")
    assert routes.reached("x", "k") == "q"
    routes.channel.exchange_delete(routes.of("later"))
    assert routes.reached("x", "k") == ""


def test_exchange_that_leads_nowhere_counts_as_taken(routes: Routes) -> None:
    routes.exchange("rest", "fanout")
    routes.bind("others", "rest")
    routes.exchange("empty", "fanout")
    routes.exchange("x", "direct", alternate="rest")
    routes.lead("x", "empty", "k")
    assert routes.reached("x", "k") == ""
    assert routes.reached("x", "other") == "others"


def test_alternate_exchange_of_each_exchange_on_the_way_is_used(routes: Routes) -> None:
    routes.exchange("rest", "fanout")
    routes.bind("others", "rest")
    routes.exchange("inner", "direct", alternate="rest")
    routes.exchange("x", "fanout")
    routes.lead("x", "inner")
    routes.bind("known", "inner", "k")
    assert routes.reached("x", "k") == "known"
    assert routes.reached("x", "other") == "others"


def test_default_exchange_is_no_alternate(routes: Routes) -> None:
    """It leads by the routing key; but as an alternate it has no bindings."""
    routes.queue("q")
    routes.channel.exchange_declare(routes.of("x"), "direct", arguments={"alternate-exchange": ""})
    try:
        assert routes.reached("x", routes.of("q")) == ""
    finally:
        routes.channel.exchange_delete(routes.of("x"))


def test_mandatory_message_that_an_alternate_takes_does_not_come_back(routes: Routes) -> None:
    routes.exchange("rest", "direct")
    routes.bind("q", "rest", "k")
    routes.exchange("x", "direct", alternate="rest")
    routes.publish("x", "k", mandatory=True)
    assert routes.arrived() == "q"
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        routes.publish("x", "neither", mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.exchange) == (312, routes.of("x"))


def test_dead_letters_take_it_too(routes: Routes) -> None:
    routes.exchange("rest", "fanout")
    routes.bind("lost", "rest")
    routes.exchange("dead", "direct", alternate="rest")
    routes.bind("found", "dead", "graves")
    for key, expected in (("graves", "found"), ("elsewhere", "lost")):
        work = routes.queue(
            f"work-{key}", x_dead_letter_exchange=routes.of("dead"), x_dead_letter_routing_key=key, x_message_ttl=0
        )
        routes.channel.basic_publish("", work, b"x")
        assert routes.wait_for(expected)
