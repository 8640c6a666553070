"""Options of a connection, its publishers and receivers: one table, read from URLs, keywords and the environment.

The names are Artemis' and Qpid's. Case, `_`, `-` and `.` in a name do not count, so `producerWindowSize` in a URL is
`producer_window_size` as a keyword. A keyword is stronger than the URL, and the URL than the environment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

from penstock.client.engine.lane import WINDOW_MAX
from penstock.client.engine.terms import ConnectionTerms, PublisherTerms, ReceiverTerms
from penstock.client.tls import TLS_FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ssl import SSLContext

CONNECTION: Final = "connection"
PUBLISHER: Final = "publisher"
RECEIVER: Final = "receiver"

PORT: Final = 5672
TLS_PORT: Final = 5671
"""Ports of amqp:// and amqps:// (IANA)."""
FOREVER: Final = float("inf")


class Option(NamedTuple):
    """One option."""

    name: str
    scope: str
    kind: str
    """count, bytes, seconds, rate, flag, text or choice."""
    default: Any
    meaning: str
    least: float = 0
    aliases: tuple[str, ...] = ()
    in_milliseconds: tuple[str, ...] = ()
    """Names by which the value is in milliseconds."""
    special: tuple[float, ...] = ()
    """Values below `least` that have a meaning of their own."""
    choices: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """Names among `name`, `aliases` and `in_milliseconds` that are also environment variables."""


OPTIONS: Final = (
    Option("window", PUBLISHER, "count", 1000, "most unconfirmed messages", 1, ("max_unconfirmed",)),
    Option(
        "producerWindowSize",
        PUBLISHER,
        "bytes",
        1024 * 1024,
        "most bytes in unconfirmed messages, -1 without a limit; a larger message passes alone",
        1,
        ("window_bytes",),
        special=(-1,),
    ),
    Option(
        "producerMaxRate",
        PUBLISHER,
        "rate",
        -1,
        "messages a second that are sent, -1 without a limit",
        1,
        ("max_send_rate",),
        special=(-1,),
    ),
    Option(
        "flow_control_wait_failure",
        PUBLISHER,
        "seconds",
        60.0,
        "time-out of a message that waits for room, and of one that waits for its outcome; 0 or -1 for ever",
        0.001,
        ("send_timeout",),
        ("qpid.flow_control_wait_failure",),
        special=(0, -1),
        environment=("PENSTOCK_FLOW_CONTROL_WAIT_FAILURE", "QPID_FLOW_CONTROL_WAIT_FAILURE"),
    ),
    Option(
        "flow_control_wait_notify_period",
        PUBLISHER,
        "seconds",
        5.0,
        "time between two warnings while a message waits",
        0.001,
        ("notify_period",),
        ("qpid.flow_control_wait_notify_period",),
        environment=("PENSTOCK_FLOW_CONTROL_WAIT_NOTIFY_PERIOD", "QPID_FLOW_CONTROL_WAIT_NOTIFY_PERIOD"),
    ),
    Option("durable", PUBLISHER, "flag", True, "whether messages that do not say so are durable"),
    Option(
        "replay",
        PUBLISHER,
        "choice",
        "again",
        "what becomes of messages under way when the broker has lost its mark: sent again, or reported unknown",
        choices=("again", "unknown"),
    ),
    Option("mandatory", PUBLISHER, "flag", True, "whether a message that reaches no queue is refused"),
    Option(
        "consumerWindowSize",
        RECEIVER,
        "bytes",
        1024 * 1024,
        "bytes that come in advance, -1 without a limit, 0 none: each message is asked for; "
        "not kept over AMQP 0-9-1 by other brokers than Penstock",
        1,
        special=(-1, 0),
    ),
    Option("prefetch", RECEIVER, "count", 1000, "most messages that were sent to it and are not settled", 1),
    Option(
        "consumerMaxRate",
        RECEIVER,
        "rate",
        -1,
        "messages a second that are handed over, -1 without a limit",
        1,
        ("max_receive_rate",),
        special=(-1,),
    ),
    Option("selector", RECEIVER, "text", "", "selector of JMS that messages have to match; over AMQP 1.0"),
    Option(
        "mode",
        RECEIVER,
        "choice",
        "take",
        "whether messages are taken off their queue, or looked at while it keeps them; over AMQP 1.0",
        choices=("take", "browse"),
    ),
    Option("exclusive", RECEIVER, "flag", False, "whether no other receiver may have the queue"),
    Option("heartbeat", CONNECTION, "seconds", None, "time between heartbeats, 0 for none"),
    Option("connect_timeout", CONNECTION, "seconds", 10.0, "time-out of connecting and logging in", 0.001),
    Option("timeout", CONNECTION, "seconds", 30.0, "time-out of declarations and other requests", 0.001),
    Option("reconnect", CONNECTION, "flag", True, "whether a lost connection is tried again"),
    Option("reconnect_delay", CONNECTION, "seconds", 0.1, "first pause before another attempt; it doubles", 0.001),
    Option("reconnect_delay_max", CONNECTION, "seconds", 30.0, "longest such pause", 0.001),
    Option(
        "reconnect_attempts",
        CONNECTION,
        "count",
        -1,
        "attempts to connect again after a loss, -1 without a limit",
        1,
        special=(-1,),
    ),
    Option("protocol", CONNECTION, "choice", "auto", "protocol", choices=("auto", "amqp091", "amqp10")),
    Option("mechanism", CONNECTION, "choice", "", "SASL mechanism", choices=("PLAIN", "EXTERNAL", "SCRAM-SHA-256")),
    Option("name", CONNECTION, "text", "", "name that the broker shows", aliases=("connection_name",)),
    Option("container_id", CONNECTION, "text", "", "container-id of AMQP 1.0"),
)
"""All options."""


def plain(name: str) -> str:
    """Return a name without ignored characters."""
    return name.lower().replace("_", "").replace("-", "").replace(".", "")


def _names() -> dict[str, tuple[Option, int]]:
    """Return each option by all of its plain names, with the milliseconds of its unit: 1 or 1000."""
    names = {}
    for option in OPTIONS:
        for name in (option.name, *option.aliases):
            names[plain(name)] = (option, 1000)
        for name in option.in_milliseconds:
            names[plain(name)] = (option, 1)
    return names


_BY_NAME: Final = _names()
_FLAGS: Final = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}


def option_of(name: str, scopes: tuple[str, ...]) -> tuple[Option, int]:
    """Return the option of a name. Raises `ValueError`, with the nearest name, if no option of these scopes matches."""
    named = _BY_NAME.get(plain(name))
    known = [each for option in OPTIONS if option.scope in scopes for each in (option.name, *option.aliases)]
    if named is None:
        from penstock.texts import nearest

        near = nearest(name, known, 0.5)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
        raise ValueError(f"unknown option {name}; {hint}")
    if named[0].scope not in scopes:
        raise ValueError(f"{name} is an option of a {named[0].scope}, not of a {scopes[0]}")
    return named


def read_value(name: str, option: Option, value: object, unit: int = 1000) -> Any:
    """Return the value of an option, from a text or a Python value. Raises `ValueError` that names value and rule."""
    kind = option.kind
    if kind == "text" and isinstance(value, str):
        return value
    if kind == "choice" and isinstance(value, str):
        if value in option.choices:
            return value
        raise _invalid(name, value, f"one of {', '.join(option.choices)}")
    if kind == "flag":
        flag = value if isinstance(value, bool) else _FLAGS.get(str(value).lower())
        if flag is None:
            raise _invalid(name, value, "true or false")
        return flag
    number = _number(kind, value, unit)
    if number is None or not isfinite(number):
        raise _invalid(name, value, _rule(option))
    if number not in option.special and number < option.least:
        raise _invalid(name, value, _rule(option))
    if kind == "seconds":
        return FOREVER if number in option.special and number <= 0 else float(number)
    if number != int(number):
        raise _invalid(name, value, _rule(option))
    return int(number)


def _number(kind: str, value: object, unit: int) -> float | None:
    """Return a number in the kind's unit, seconds or bytes; None for another value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value if unit == 1000 or kind != "seconds" or value <= 0 else value / 1000
    if not isinstance(value, str):
        return None
    try:
        number = float(value)
    except ValueError:
        return _with_unit(kind, value)
    return _number(kind, int(number) if number.is_integer() else number, unit)


def _with_unit(kind: str, text: str) -> float | None:
    """Return an amount with a unit in seconds or bytes; None for another text."""
    from penstock.texts import BYTES, TIMES, amount  # The imports take 20 ms.

    units: Mapping[str, int] = TIMES if kind == "seconds" else BYTES if kind == "bytes" else {}
    number = amount(text, units)
    if number is None:
        return None
    return float(number) / 1000 if kind == "seconds" else float(number)


def _rule(option: Option) -> str:
    nouns = {"count": "a whole number", "bytes": "bytes", "seconds": "seconds", "rate": "a whole number"}
    special = "".join(f"{value:g} or " for value in option.special)
    return f"{special}{nouns.get(option.kind, 'a text')} from {option.least:g} on"


def _invalid(name: str, value: object, rule: str) -> ValueError:
    return ValueError(f"{name}={value!r} is not valid: it must be {rule}")


class Address(NamedTuple):
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Options:
    """Options of a connection, with the defaults of its publishers and receivers; its text contains no password."""

    def __init__(self, url: str, keywords: Mapping[str, object]) -> None:
        """Read a URL and keywords. Raises `ValueError`, which never quotes a password."""
        self.values: dict[str, Any] = {option.name: option.default for option in OPTIONS}
        self.is_window_chosen = False
        """True if a consumer's window was set, even to the default."""
        self._read_environment()
        self.tls: SSLContext | None = None
        self.hosts: tuple[Address, ...] = ()
        self.user, self.password, self.virtual_host = "guest", "guest", "/"
        self.product = "penstock-client"
        """Displayed name of the program."""
        self.query = ""
        """Name of the streaming query whose results are published, over AMQP 0-9-1; empty for none."""
        self.token: Callable[[], str] | str | None = None
        """Token instead of a password, or a function that returns one: at each login, and before it expires."""
        self._container = f"penstock-{os.urandom(6).hex()}"
        self._producer = os.urandom(16).hex()
        self._publisher_terms: PublisherTerms | None = None
        """Terms of the last publisher without own options."""
        files = self._read_url(url)
        for name, value in keywords.items():
            if name in ("tls", "token"):
                setattr(self, name, value)
            elif name in ("user", "password", "virtual_host", "product", "query"):
                setattr(self, name, str(value))
            elif value is not None:
                option, unit = option_of(name, (CONNECTION, PUBLISHER, RECEIVER))
                self._set(option, read_value(name, option, value, unit))
        if self.is_encrypted and self.tls is None:
            from penstock.client.tls import context_of  # The import of ssl takes 15 ms.

            self.tls = context_of(files)

    def _set(self, option: Option, value: object) -> None:
        self.values[option.name] = value
        self.is_window_chosen = self.is_window_chosen or option.name == "consumerWindowSize"

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __repr__(self) -> str:
        return f"<{self.user} at {', '.join(map(str, self.hosts))}, virtual host {self.virtual_host}>"

    def _read_environment(self) -> None:
        for option in OPTIONS:
            for variable in option.environment:
                value = os.environ.get(variable)
                if value is not None:
                    unit = 1 if variable.startswith("QPID_") else 1000
                    self._set(option, read_value(variable, option, value, unit))

    def _read_url(self, url: str) -> dict[str, str]:
        """Read `amqp[s]://user:password@host:port,host:port/vhost?option=value`; return the fields for TLS.

        Importing urllib for it takes 3 ms.
        """
        scheme, mark, rest = url.partition("://")
        scheme = scheme.lower() if mark else ""
        if scheme not in ("amqp", "amqps"):
            raise ValueError(f"a broker's URL starts with amqp:// or amqps://, not with {scheme or 'nothing'}://")
        self.is_encrypted = scheme == "amqps"
        place, _, query = rest.partition("#")[0].partition("?")
        authority, _, path = place.partition("/")
        login, _, places = authority.rpartition("@")
        if login:
            user, _, password = login.partition(":")
            self.user, self.password = unquoted(user), unquoted(password)
        self.hosts = tuple(self._address(place) for place in places.split(","))
        self.virtual_host = unquoted(path) or "/"
        files: dict[str, str] = {}
        for field in filter(None, query.replace("+", " ").split("&")):
            name, value = (unquoted(part) for part in field.partition("=")[::2])
            if name in TLS_FIELDS:
                if not self.is_encrypted:
                    raise ValueError(f"{name} is for amqps:// URLs; this one is amqp://")
                files[name] = value
                continue
            option, unit = option_of(name, (CONNECTION, PUBLISHER, RECEIVER))
            self._set(option, read_value(name, option, value, unit))
        return files

    def _address(self, text: str) -> Address:
        default = TLS_PORT if self.is_encrypted else PORT
        if text.startswith("["):
            host, end, port = text[1:].partition("]")
            if not end or port[:1] not in ("", ":"):  # The whole text may contain a password.
                raise ValueError("the broker's URL cannot be read: its host is malformed")
            port = port[1:]
        else:
            host, _, port = text.partition(":")
        if port and not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
            raise ValueError(f"the port of {text.rpartition(':')[0] or text} is not a number from 0 to 65535")
        return Address(host.lower() or "127.0.0.1", int(port) if port else default)

    def secret(self) -> str:
        """Return the password, or a token. Raises the exceptions of the token function, and `TypeError` for another
        type.
        """
        token = self.token
        secret = self.password if token is None else token if isinstance(token, str) else token()
        if not isinstance(secret, str):
            raise TypeError(f"a token is a text; the function for tokens has returned {type(secret).__name__}")
        return secret

    def connection_terms(self, address: Address, *, heartbeat: float) -> ConnectionTerms:
        """Return the terms of a connection to one of the hosts; `heartbeat` is the default."""
        wanted = self["heartbeat"]
        return ConnectionTerms(
            host=address.host,
            port=address.port,
            virtual_host=self.virtual_host,
            user=self.user,
            password=self.password,
            mechanism=self["mechanism"],
            is_encrypted=self.is_encrypted,
            heartbeat=heartbeat if wanted is None else wanted,
            name=self["name"],
            product=self.product,
            query=self.query,
            container=self["container_id"] or self._container,
            nonce=os.urandom(16).hex(),
            producer=self._producer,
            call_timeout=self["timeout"],
        )

    def publisher_terms(self, queue: str, exchange: str, key: str, given: Mapping[str, object]) -> PublisherTerms:
        """Return the terms of a publisher, with its own options. Raises `ValueError`."""
        if queue and (exchange or key):
            raise ValueError("a publisher has a queue, or an exchange and a routing key")
        last = self._publisher_terms
        if not given and last is not None and (last.exchange, last.key) == (exchange, queue or key):
            return last  # Thousands of publishers of one queue share the terms.
        options = self._own(PUBLISHER, given)
        if options["name"] and options["window"] > WINDOW_MAX:
            raise ValueError(
                f"window={options['window']} is not valid for a named publisher: it must be at most {WINDOW_MAX}"
            )
        terms = PublisherTerms(
            exchange=exchange,
            key=queue or key,
            window=options["window"],
            window_bytes=options["producerWindowSize"],
            max_rate=options["producerMaxRate"],
            wait_failure=options["flow_control_wait_failure"],
            is_wait_chosen=options["flow_control_wait_failure"] != _BY_NAME["flowcontrolwaitfailure"][0].default,
            notify_period=options["flow_control_wait_notify_period"],
            durable=options["durable"],
            mandatory=options["mandatory"],
            sends_uncertain=options["replay"] == "again",
            name=options["name"],
            epoch=round(time.time() * 1000) if options["name"] else 0,
        )
        if not given:
            self._publisher_terms = terms
        return terms

    def receiver_terms(self, queue: str, given: Mapping[str, object]) -> ReceiverTerms:
        """Return the terms of a receiver, with its own options. Raises `ValueError`."""
        options = self._own(RECEIVER, given)
        return ReceiverTerms(
            queue=queue,
            window_bytes=options["consumerWindowSize"],
            is_window_chosen=self.is_window_chosen or _names_window(given),
            prefetch=options["prefetch"],
            max_rate=options["consumerMaxRate"],
            exclusive=options["exclusive"],
            name=options["name"],
            selector=options["selector"],
            browses=options["mode"] == "browse",
        )

    def _own(self, scope: str, given: Mapping[str, object]) -> dict[str, Any]:
        options = {**self.values, "name": ""}
        for name, value in given.items():
            if name == "name":
                options["name"] = str(value)
                continue
            option, unit = option_of(name, (scope,))
            options[option.name] = read_value(name, option, value, unit)
        return options


def _names_window(given: Mapping[str, object]) -> bool:
    return any(option_of(name, (RECEIVER,))[0].name == "consumerWindowSize" for name in given if name != "name")


def unquoted(text: str) -> str:
    """Return a text without percent-encoding."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def queue_arguments(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings of a queue as arguments of its declaration: `capacity_messages` is `capacity-messages`."""
    return {name.replace("_", "-"): value for name, value in settings.items() if value is not None}
