"""Options of the client: names, units, bounds, and errors for invalid values."""

from __future__ import annotations

import pytest

import penstock
from penstock.client.options import FOREVER, OPTIONS, Options, plain


def test_options_have_defaults_within_the_bounds() -> None:
    options = Options("amqp://", {})
    assert (options["window"], options["prefetch"], options["producerMaxRate"]) == (1000, 1000, -1)
    assert options["consumerWindowSize"] == 1024 * 1024
    assert (options["flow_control_wait_failure"], options["flow_control_wait_notify_period"]) == (60.0, 5.0)


@pytest.mark.parametrize(
    ("url", "given", "chosen"),
    [
        ("amqp://", {}, False),
        ("amqp://?prefetch=5", {"prefetch": 7, "name": "consumerWindowSize"}, False),
        ("amqp://?consumerWindowSize=1MiB", {}, True),
        ("amqp://", {"consumer_window_size": 1024 * 1024}, True),
    ],
)
def test_consumer_window_is_taken_from_the_option(url: str, given: dict[str, object], chosen: bool) -> None:
    terms = Options(url, {}).receiver_terms("q", given)
    assert (terms.window_bytes, terms.is_window_chosen) == (1024 * 1024, chosen)


def test_option_names_are_distinct() -> None:
    names = [plain(name) for option in OPTIONS for name in (option.name, *option.aliases, *option.in_milliseconds)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("url", "keywords", "name", "value"),
    [
        ("amqp://?producerWindowSize=10", {}, "producerWindowSize", 10),
        ("amqp://?producerWindowSize=64KiB", {}, "producerWindowSize", 65536),
        ("amqp://", {"producer_window_size": "1 MiB"}, "producerWindowSize", 1024 * 1024),
        ("amqp://?consumerWindowSize=0", {}, "consumerWindowSize", 0),
        ("amqp://?consumerWindowSize=-1", {}, "consumerWindowSize", -1),
        ("amqp://?consumerMaxRate=10", {}, "consumerMaxRate", 10),
        ("amqp://?flow_control_wait_failure=3", {}, "flow_control_wait_failure", 3.0),
        ("amqp://?flow_control_wait_failure=3s", {}, "flow_control_wait_failure", 3.0),
        ("amqp://?flow_control_wait_failure=250ms", {}, "flow_control_wait_failure", 0.25),
        ("amqp://?flow_control_wait_failure=0", {}, "flow_control_wait_failure", FOREVER),
        ("amqp://?flow_control_wait_failure=-1", {}, "flow_control_wait_failure", FOREVER),
        ("amqp://?qpid.flow_control_wait_failure=3000", {}, "flow_control_wait_failure", 3.0),
        ("amqp://?qpid.flow_control_wait_notify_period=500", {}, "flow_control_wait_notify_period", 0.5),
        ("amqp://?window=5", {"window": 7}, "window", 7),
        ("amqp://?reconnect=false", {}, "reconnect", False),
        ("amqp://?name=shop", {}, "name", "shop"),
    ],
)
def test_option_is_read(url: str, keywords: dict[str, object], name: str, value: object) -> None:
    assert Options(url, keywords)[name] == value


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (
            "amqp://?producerWindowsSize=1",
            "a connection has no option 'producerWindowsSize'; did you mean producer",
        ),
        ("amqp://?window=-2", "window must be a whole number from 1, not '-2'"),
        ("amqp://?window=0", "window must be a whole number from 1, not '0'"),
        ("amqp://?producerWindowSize=-2", "producerWindowSize must be bytes from 1 (such as 64MiB), or -1, not '-2'"),
        (
            "amqp://?consumerWindowSize=-2",
            "must be bytes from 1 (such as 64MiB), or -1 or 0, not '-2'",
        ),
        ("amqp://?producerMaxRate=0", "producerMaxRate must be a whole number from 1, or -1, not '0'"),
        ("amqp://?consumerMaxRate=1.5", "a whole number"),
        (
            "amqp://?flow_control_wait_failure=soon",
            "must be seconds from 0.001 (such as 30s), or 0 or -1, not",
        ),
        ("amqp://?window=inf", "window must be a whole number from 1 to 4611686018427387903, not 'inf'"),
        ("amqp://?timeout=nan", "timeout must be seconds from 0.001 (such as 30s), not 'nan'"),
        ("amqp://?protocol=mqtt", "protocol must be auto, amqp091 or amqp10, not 'mqtt'"),
        ("amqp://?reconnect=maybe", "reconnect must be true or false, not 'maybe'"),
        ("amqp://?window=5&max_unconfirmed=6", "max_unconfirmed=6 contradicts window=5; both set window"),
        ("amqp://?qpid.flow_control_wait_failure=x", "flow_control_wait_failure must be milliseconds from 1 (such"),
        ("amqp://?cacertfile=x", "cacertfile is for amqps:// URLs"),
        ("http://localhost", "starts with amqp:// or amqps://"),
        ("amqp://h:port", "the port of h is not a number"),
    ],
)
def test_bad_option_is_refused_with_name_value_and_rule(url: str, text: str) -> None:
    with pytest.raises(ValueError) as failure:
        penstock.connect(url)
    assert text in str(failure.value)


def test_url_has_several_hosts_and_a_login() -> None:
    options = Options("amqp://us%20er:p%40ss@a,b:1234,[::1]:5/a%2Fb", {})
    assert [str(host) for host in options.hosts] == ["a:5672", "b:1234", "::1:5"]
    assert (options.user, options.password, options.virtual_host) == ("us er", "p@ss", "a/b")
    assert "p@ss" not in repr(options)


def test_variable_of_the_environment_is_weaker_than_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QPID_FLOW_CONTROL_WAIT_FAILURE", "1500")
    monkeypatch.setenv("PENSTOCK_FLOW_CONTROL_WAIT_NOTIFY_PERIOD", "2")
    assert Options("amqp://", {})["flow_control_wait_failure"] == 1.5
    assert Options("amqp://", {})["flow_control_wait_notify_period"] == 2.0
    assert Options("amqp://?flow_control_wait_failure=9", {})["flow_control_wait_failure"] == 9.0


@pytest.mark.parametrize(
    ("url", "host", "user", "password", "vhost"),
    [
        ("AMQP://Host", "host:5672", "guest", "guest", "/"),
        ("amqps://u@h", "h:5671", "u", "", "/"),
        ("amqp://u:p:q@h:1/%2f#x?name=y", "h:1", "u", "p:q", "/"),
        ("amqp://[::1]", "::1:5672", "guest", "guest", "/"),
        ("amqp://:7?name=a+b%20c&&", "127.0.0.1:7", "guest", "guest", "/"),
    ],
)
def test_url_is_read_like_any_other(url: str, host: str, user: str, password: str, vhost: str) -> None:
    options = Options(url, {"tls": object()})
    assert (str(options.hosts[0]), options.user, options.password, options.virtual_host) == (
        host,
        user,
        password,
        vhost,
    )
    assert options["name"] == ("a b c" if "name=a" in url else "")


@pytest.mark.parametrize("url", ["amqp://u:secret@[::1", "amqp://u:secret@[::1]x", "amqp://u:secret@h:65536"])
def test_malformed_host_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"malformed|65535") as failure:
        Options(url, {})
    assert "secret" not in str(failure.value)
