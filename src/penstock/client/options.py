"""Options of a connection, its publishers and receivers: one table, read from URLs, keywords and the environment.

The names are Artemis' and Qpid's. Case, `_`, `-` and `.` in a name do not count, so `producerWindowSize` in a URL is
`producer_window_size` as a keyword. A keyword is stronger than the URL, and the URL than the environment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from penstock.client.engine.lane import WINDOW_MAX
from penstock.client.engine.terms import ConnectionTerms, PublisherTerms, ReceiverTerms
from penstock.client.tls import TLS_FIELDS
from penstock.settings.kind import (
    FLAG,
    SECONDS,
    TEXT,
    Choices,
    InvalidValue,
    Kind,
    Number,
    contradiction,
    seconds_from,
    unknown_name,
    whole,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from ssl import SSLContext

CONNECTION: Final = "connection"
PUBLISHER: Final = "publisher"
RECEIVER: Final = "receiver"

PORT: Final = 5672
TLS_PORT: Final = 5671
"""Ports of amqp:// and amqps:// (IANA)."""
SCOPES: Final = (CONNECTION, PUBLISHER, RECEIVER)
FOREVER: Final = float("inf")


NAMED_WINDOW: Final = whole(1, WINDOW_MAX)
WITHOUT_LIMIT: Final = {-1: -1}
WINDOW: Final = Number("bytes", 1, special=WITHOUT_LIMIT)
RATE: Final = Number("", 1, special=WITHOUT_LIMIT)
TIME: Final = seconds_from(0.001)
WAIT: Final = Number("s", 0.001, whole=False, special={0: FOREVER, -1: FOREVER})


class Option(NamedTuple):
    """One option."""

    name: str
    scope: str
    kind: Kind
    default: Any
    meaning: str
    aliases: tuple[str, ...] = ()
    in_milliseconds: tuple[str, ...] = ()
    """Names by which a number without a unit is in milliseconds."""
    environment: tuple[str, ...] = ()
    """Names among `name`, `aliases` and `in_milliseconds` that are also environment variables."""


OPTIONS: Final = (
    Option("window", PUBLISHER, whole(1), 1000, "most unconfirmed messages", ("max_unconfirmed",)),
    Option(
        "producerWindowSize",
        PUBLISHER,
        WINDOW,
        1024 * 1024,
        "most bytes in unconfirmed messages, -1 without a limit; a larger message passes alone",
        ("window_bytes",),
    ),
    Option(
        "producerMaxRate",
        PUBLISHER,
        RATE,
        -1,
        "messages a second that are sent, -1 without a limit",
        ("max_send_rate",),
    ),
    Option(
        "flow_control_wait_failure",
        PUBLISHER,
        WAIT,
        60.0,
        "time-out of a message that waits for room, and of one that waits for its outcome; 0 or -1 for ever",
        ("send_timeout",),
        ("qpid.flow_control_wait_failure",),
        environment=("PENSTOCK_FLOW_CONTROL_WAIT_FAILURE", "QPID_FLOW_CONTROL_WAIT_FAILURE"),
    ),
    Option(
        "flow_control_wait_notify_period",
        PUBLISHER,
        TIME,
        5.0,
        "time between two warnings while a message waits",
        ("notify_period",),
        ("qpid.flow_control_wait_notify_period",),
        environment=("PENSTOCK_FLOW_CONTROL_WAIT_NOTIFY_PERIOD", "QPID_FLOW_CONTROL_WAIT_NOTIFY_PERIOD"),
    ),
    Option("durable", PUBLISHER, FLAG, True, "whether messages that do not say so are durable"),
    Option(
        "replay",
        PUBLISHER,
        Choices(("again", "unknown")),
        "again",
        "what becomes of messages under way when the broker has lost its mark: sent again, or reported unknown",
    ),
    Option("mandatory", PUBLISHER, FLAG, True, "whether a message that reaches no queue is refused"),
    Option(
        "consumerWindowSize",
        RECEIVER,
        Number("bytes", 1, special={-1: -1, 0: 0}),
        1024 * 1024,
        "bytes that come in advance, -1 without a limit, 0 none: each message is asked for; "
        "not kept over AMQP 0-9-1 by other brokers than Penstock",
    ),
    Option("prefetch", RECEIVER, whole(1), 1000, "most messages that were sent to it and are not settled"),
    Option(
        "consumerMaxRate",
        RECEIVER,
        RATE,
        -1,
        "messages a second that are handed over, -1 without a limit",
        ("max_receive_rate",),
    ),
    Option("selector", RECEIVER, TEXT, "", "selector of JMS that messages have to match; over AMQP 1.0"),
    Option(
        "mode",
        RECEIVER,
        Choices(("take", "browse")),
        "take",
        "whether messages are taken off their queue, or looked at while it keeps them; over AMQP 1.0",
    ),
    Option("exclusive", RECEIVER, FLAG, False, "whether no other receiver may have the queue"),
    Option("heartbeat", CONNECTION, SECONDS, None, "time between heartbeats, 0 for none"),
    Option("connect_timeout", CONNECTION, TIME, 10.0, "time-out of connecting and logging in"),
    Option("timeout", CONNECTION, TIME, 30.0, "time-out of declarations and other requests"),
    Option("reconnect", CONNECTION, FLAG, True, "whether a lost connection is tried again"),
    Option(
        "reconnect_delay",
        CONNECTION,
        TIME,
        0.1,
        "first pause before another attempt; it doubles, also after short connections",
    ),
    Option("reconnect_delay_max", CONNECTION, TIME, 30.0, "longest such pause"),
    Option(
        "reconnect_attempts",
        CONNECTION,
        RATE,
        -1,
        "attempts to connect again after a loss, -1 without a limit",
    ),
    Option("protocol", CONNECTION, Choices(("auto", "amqp091", "amqp10")), "auto", "protocol"),
    Option("mechanism", CONNECTION, Choices(("PLAIN", "EXTERNAL", "SCRAM-SHA-256")), "", "SASL mechanism"),
    Option("name", CONNECTION, TEXT, "", "name that the broker shows", aliases=("connection_name",)),
    Option("container_id", CONNECTION, TEXT, "", "container-id of AMQP 1.0"),
)
"""All options."""


def plain(name: str) -> str:
    """Return a name without ignored characters."""
    return name.lower().replace("_", "").replace("-", "").replace(".", "")


def _names() -> dict[str, tuple[Option, Kind]]:
    """Return each option by all of its plain names, with the kind of values by that name."""
    names: dict[str, tuple[Option, Kind]] = {}
    for option in OPTIONS:
        for name in (option.name, *option.aliases):
            names[plain(name)] = (option, option.kind)
        for name in option.in_milliseconds:
            names[plain(name)] = (option, _in_milliseconds(option.kind))
    return names


def _in_milliseconds(kind: Kind) -> Kind:
    """Return the kind of a time in seconds whose bare numbers are milliseconds."""
    assert isinstance(kind, Number)
    return kind.but(bare="ms")


_BY_NAME: Final = _names()


def option_of(name: str, scopes: tuple[str, ...]) -> tuple[Option, Kind]:
    """Return the option of a name. Raises `ValueError`, with the nearest name, if no option of these scopes matches."""
    named = _BY_NAME.get(plain(name))
    if named is None:
        known = [each for option in OPTIONS if option.scope in scopes for each in (option.name, *option.aliases)]
        raise InvalidValue(unknown_name(f"a {scopes[0]}", "option", name, known, fold=plain), name)
    if named[0].scope not in scopes:
        raise InvalidValue(f"{name} is an option of a {named[0].scope}, not of a {scopes[0]}", name)
    return named


def read_options(given: Iterable[tuple[str, object]], scopes: tuple[str, ...]) -> dict[str, Any]:
    """Return the values that one source gives, by the names of their options. Raises `ValueError` that names value and
    rule, also for two names of one option with different values.
    """
    found: dict[str, Any] = {}
    spelt: dict[str, tuple[str, object]] = {}
    for name, value in given:
        option, kind = option_of(name, scopes)
        read = kind.read(name, value)
        if option.name in found and found[option.name] != read:
            raise InvalidValue(contradiction(name, value, *spelt[option.name], option.name), name)
        found[option.name], spelt[option.name] = read, (name, value)
    return found


class Address(NamedTuple):
    """Host and port of a broker, or the path of its Unix socket with port 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"unix:{self.host}" if self.is_path() else f"{self.host}:{self.port}"

    def is_path(self) -> bool:
        """Return whether this is a Unix socket."""
        return self.host.startswith("/")


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
        self.dial: Callable[[], Awaitable[socket.socket]] | None = None
        """Function that returns a connected socket for each login, in asyncio; None to connect to the hosts."""
        self._container = f"penstock-{os.urandom(6).hex()}"
        self._producer = os.urandom(16).hex()
        self._publisher_terms: PublisherTerms | None = None
        """Terms of the last publisher without own options."""
        files = self._read_url(url)
        given: list[tuple[str, object]] = []
        for name, value in keywords.items():
            if name in ("tls", "token"):
                setattr(self, name, value)
            elif name in ("user", "password", "virtual_host", "product", "query"):
                setattr(self, name, str(value))
            elif value is not None:
                given.append((name, value))
        self._set(read_options(given, SCOPES))
        if self.is_encrypted and self.tls is None:
            from penstock.client.tls import context_of  # The import of ssl takes 15 ms.

            self.tls = context_of(files)

    def _set(self, found: Mapping[str, Any]) -> None:
        self.values.update(found)
        self.is_window_chosen = self.is_window_chosen or "consumerWindowSize" in found

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __repr__(self) -> str:
        return f"<{self.user} at {', '.join(map(str, self.hosts))}, virtual host {self.virtual_host}>"

    def _read_environment(self) -> None:
        for option in OPTIONS:
            for variable in option.environment:
                value = os.environ.get(variable)
                if value is not None:
                    kind = _in_milliseconds(option.kind) if variable.startswith("QPID_") else option.kind
                    self._set({option.name: kind.read(variable, value)})

    def _read_url(self, url: str) -> dict[str, str]:
        """Read `amqp[s]://user:password@host:port,host:port/vhost?option=value`; return the fields for TLS.

        A host that is a percent-encoded path is a Unix socket. Importing urllib takes 3 ms.
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
        given: list[tuple[str, object]] = []
        for field in filter(None, query.replace("+", " ").split("&")):
            name, value = (unquoted(part) for part in field.partition("=")[::2])
            if name in TLS_FIELDS:
                if not self.is_encrypted:
                    raise ValueError(f"{name} is for amqps:// URLs; this one is amqp://")
                files[name] = value
                continue
            given.append((name, value))
        self._set(read_options(given, SCOPES))
        return files

    def _address(self, text: str) -> Address:
        default = TLS_PORT if self.is_encrypted else PORT
        if text[:3].lower() == "%2f":  # As in URLs of libpq.
            return Address(unquoted(text), 0)
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
            raise InvalidValue(NAMED_WINDOW.fault("window of a named publisher", options["window"]), "window")
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
        options = {**self.values, "name": str(given.get("name", ""))}
        options.update(read_options([each for each in given.items() if each[0] != "name"], (scope,)))
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
