"""The table of settings at the start: a field each, with its kind, bounds, default and meaning.

The following are derived from this table: the reading of the settings file, the environment and options, the output of
`penstock config`, and docs/settings.md, whose meanings are the docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_type_hints

from penstock.errors import ConfigError
from penstock.logs.ids import LEVEL_NAMES
from penstock.markers import override
from penstock.settings.kind import BYTES, COUNT, INVALID, Choices, Kind, Number, Strings, Text, bytes_from, whole

SASL_MECHANISMS: Final = ("EXTERNAL", "SCRAM-SHA-256", "PLAIN", "AMQPLAIN", "ANONYMOUS")
"""Mechanisms for logins, the strongest first; many clients choose the first that they support."""
TABLE_OCTETS_MAX: Final = 16 * 1024
"""Bytes of the arguments of one declaration: a hundred times the usual size."""
ARGUMENTS_BYTES: Final = 512 * 1024 * 1024
"""Memory of the arguments of all objects: half a million objects of 1 KiB."""
AUTO_HTTP: Final = "auto"
"""Value of the HTTP API's address for `DEFAULT_HTTP`, if its port is free and the broker is the machine's own."""
NO_HTTP: Final = "off"
DEFAULT_HTTP: Final = "127.0.0.1:15672"
NO_LOG: Final = "off"
"""Value of the directory of the flow log or the audit log that disables it, although there is a data directory."""


class Address(Text):
    """One address, which may also be written as a list of one address."""

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        return super().parse(value[0] if isinstance(value, list) and len(value) == 1 else value, typed)


AUTO_SHARDS: Final = "auto"
"""Value of `shards` for as many shards as the process may use cores."""
SHARDS_MOST: Final = 100
"""Most shards of a node."""


class Shards(Number):
    """Number of shards, or `auto`."""

    @override
    def parse(self, value: object, typed: bool = False) -> Any:
        if isinstance(value, str) and value.strip().lower() == AUTO_SHARDS:
            return AUTO_SHARDS
        return super().parse(value, typed)


ADDRESS: Final = Address(secret=True)
STRING: Final = Text(secret=True)
"""String that may contain a password, such as a store's URL."""
STRINGS: Final = Strings(single=True)
MECHANISMS: Final = Strings(1, single=True, choices=SASL_MECHANISMS)


@dataclass(frozen=True)
class Rule:
    """Rule for one setting, besides the type and the default of its field."""

    kind: Kind
    alias: str = ""
    """Name in Artemis."""
    reloadable: bool = False
    """True if a reload changes the setting too."""


@dataclass(frozen=True)
class Start:
    """Settings of a broker at its start."""

    listen: Annotated[list[str], Rule(STRINGS)] = field(default_factory=lambda: ["127.0.0.1:5672"])
    """HOST:PORT of each listener, or unix:PATH of a Unix socket; port 0 picks a free port."""
    listen_tls: Annotated[list[str], Rule(STRINGS)] = field(default_factory=list)
    """HOST:PORT of each listener with TLS, usually with port 5671."""
    http: Annotated[str | None, Rule(ADDRESS)] = AUTO_HTTP
    """HOST:PORT of the console and the HTTP API. `auto`: 127.0.0.1:15672, unless that is in use, `listen` has no
    port or port 0, or `http-tls` is set. `off`: nowhere. Also unix:PATH.
    """
    http_hosts: Annotated[list[str], Rule(STRINGS)] = field(default_factory=list)
    """More names under which the HTTP API is reached, such as `["*.svc.cluster.local"]`."""
    http_origins: Annotated[list[str], Rule(STRINGS)] = field(default_factory=list)
    """Sites whose pages may use the HTTP API from a browser (CORS), such as `["https://console.example.com"]`."""
    http_tls: Annotated[str | None, Rule(ADDRESS)] = None
    """HOST:PORT of the HTTP API with TLS, usually with port 15671."""
    metrics_listen: Annotated[str | None, Rule(ADDRESS)] = None
    """HOST:PORT of metrics and probes without a login, usually port 15692, or unix:PATH; none: no such listener."""
    metrics_objects_max: Annotated[int, Rule(whole(0, 1_000_000))] = 10_000
    """Queues, connections, channels or cursors in one answer of `/metrics/per-object`; the others are counted."""
    data: Annotated[str | None, Rule(STRING)] = None
    """Data directory; by default `penstock serve` uses the directory of its user, and none with `--memory`."""
    store: Annotated[str | None, Rule(STRING)] = None
    """Another store instead: `postgresql://HOST/DATABASE`."""
    definitions: Annotated[str | None, Rule(Text(1))] = None
    """File of definitions, or folder of such files (`*.json`), imported at the start if they differ from what is there;
    none: no import.
    """
    vhosts: Annotated[list[str], Rule(Strings(1, single=True))] = field(default_factory=lambda: ["/"])
    """Virtual hosts; `penstock vhosts declare` creates more."""
    shards: Annotated[int | str, Rule(Shards(most=SHARDS_MOST, also=AUTO_SHARDS))] = 0
    """Processes that share the virtual hosts; `auto`: one for each core; 0: one broker."""
    hold_bytes: Annotated[int, Rule(BYTES)] = 1024 * 1024
    """Bytes of held publishes of a connection above which its reading is paused."""
    transaction_bytes: Annotated[int, Rule(BYTES)] = 16 * 1024 * 1024
    """Bytes that a connection may store for commits of its transactions; beyond, its publishes are refused."""
    transaction_timeout_s: Annotated[int, Rule(Number("s", 1, 86_400))] = 1800
    """Seconds that a transaction of AMQP 1.0 may be open after its first message or settlement."""
    flow_enforcement_s: Annotated[int, Rule(Number("s", 1, 86_400))] = 5
    """Seconds that a client has to stop after `channel.flow` (Broker-J:
    `channel.flowControlEnforcementTimeout`).
    """
    message_bytes_max: Annotated[int, Rule(bytes_from(0, 2**32 - 1))] = 128 * 1024 * 1024
    """Bytes of the largest body."""
    min_large_message: Annotated[int, Rule(BYTES, alias="amqpMinLargeMessageSize")] = 1024 * 1024
    """Bytes from which a body of several frames is stored in pieces (Artemis: `amqpMinLargeMessageSize`); 0 is
    never.
    """
    arriving_bytes_max: Annotated[int, Rule(BYTES)] = 256 * 1024 * 1024
    """Bytes of incomplete messages that arrive in pieces on one connection; the largest message always fits."""
    arguments_octets_max: Annotated[int, Rule(bytes_from(256, 2**20))] = TABLE_OCTETS_MAX
    """Bytes of the arguments of one queue, exchange, binding or consumer."""
    arguments_bytes_max: Annotated[int, Rule(BYTES)] = ARGUMENTS_BYTES
    """Memory of the arguments of all objects; at most an eighth of the node's memory, half of it for one virtual
    host.
    """
    frame_max: Annotated[int, Rule(bytes_from(4096, 2**31 - 1))] = 131072
    """Bytes of the largest frame that is offered."""
    initial_frame_max: Annotated[int, Rule(bytes_from(4096, 131_072))] = 4096
    """Bytes of the largest frame before the login."""
    sasl_mechanisms: Annotated[list[str], Rule(MECHANISMS)] = field(default_factory=lambda: list(SASL_MECHANISMS))
    """Mechanisms that are offered to clients, in order."""
    insecure_mechanisms: Annotated[list[str], Rule(MECHANISMS)] = field(default_factory=lambda: list(SASL_MECHANISMS))
    """Mechanisms for clients on other machines without TLS. Without PLAIN and AMQPLAIN no password is sent in clear
    text; HTTP's basic authentication counts as PLAIN.
    """
    rabbitmq_version: Annotated[str | None, Rule(STRING)] = None
    """Version of RabbitMQ that is announced to its AMQP 1.0 clients; none: Penstock's version."""
    channel_max: Annotated[int, Rule(whole(1, 2**16 - 1))] = 2047
    """Channels of a connection."""
    heartbeat_s: Annotated[int, Rule(Number("s", 0, 2**16 - 1))] = 60
    """Seconds between heartbeats that are offered; 0 is none."""
    handshake_s: Annotated[int, Rule(Number("s", 1, 600))] = 10
    """Seconds from connect until the connection must be open."""
    connections_max: Annotated[int, Rule(COUNT)] = 0
    """Open connections; 0: limited only by open files. Beyond, opening is refused (530)."""
    connections_address_max: Annotated[int, Rule(COUNT)] = 0
    """Open connections of one address other than this machine; 0: no limit."""
    handshakes_max: Annotated[int, Rule(whole(1, 1_000_000))] = 1000
    """Connections without a login, of all other machines; at most half of the open files."""
    handshakes_address_max: Annotated[int, Rule(whole(1, 1_000_000))] = 500
    """Connections without a login, of one address, and of this machine; at most a quarter of the open files."""
    login_rate_max: Annotated[int, Rule(whole(0, 1_000_000))] = 0
    """Logins a second of all other machines, and as many of this one; 0: no limit."""
    login_rate_address_max: Annotated[int, Rule(whole(0, 1_000_000))] = 0
    """Logins a second of one address other than this machine; 0: no limit."""
    login_threads: Annotated[int, Rule(whole(0, 64))] = 0
    """Threads that verify passwords; 0 is one for two cores, at most 4. Each takes 16 MiB during a verification."""
    flow_log: Annotated[str | None, Rule(STRING)] = None
    """Directory of the flow log; none: in the data directory; `off`: nowhere."""
    flow_log_files: Annotated[int, Rule(whole(2, 10_000))] = 8
    """Files of the flow log; beyond, the oldest is deleted."""
    flow_log_file_bytes: Annotated[int, Rule(bytes_from(4096, 2**40))] = 16 * 1024 * 1024
    """Bytes of the largest file of the flow log."""
    audit_log: Annotated[str | None, Rule(STRING)] = None
    """Directory of the audit log; none: in the data directory; `off`: nowhere."""
    audit_log_files: Annotated[int, Rule(whole(2, 10_000))] = 32
    """Files of the audit log; beyond, the oldest is deleted."""
    audit_log_file_bytes: Annotated[int, Rule(bytes_from(4096, 2**40))] = 4 * 1024 * 1024
    """Bytes of the largest file of the audit log."""
    log_level: Annotated[str, Rule(Choices(tuple(LEVEL_NAMES.values())), reloadable=True)] = "info"
    """Least level of the records of the log: `debug`, `info`, `warning`, `error`; SIGHUP reads it again."""
    log_format: Annotated[str, Rule(Choices(("text", "json", "qpid")))] = "text"
    """Format of the log: `text`; `json`, which is a JSON object a line; or `qpid`, the form of Qpid's Java broker."""
    slow_turn_ms: Annotated[int, Rule(Number("ms", 0, 60_000), reloadable=True)] = 100
    """Milliseconds from which a turn of the event loop is logged; 0 is never; SIGHUP reads it again."""
    latency_target_ms: Annotated[int, Rule(Number("ms", 0, 100), reloadable=True)] = 0
    """Milliseconds that a message may wait for others, so that one wake-up of the broker serves all of them; 0: none.
    SIGHUP reads it again.
    """
    traces_endpoint: Annotated[str | None, Rule(STRING)] = None
    """URL of a collector of OpenTelemetry for spans of waiting publishes (OTLP over HTTP), such as
    `http://127.0.0.1:4318/v1/traces`; none: no spans are sent.
    """


RULES: Final[dict[str, Rule]] = {
    name: next(each for each in hint.__metadata__ if isinstance(each, Rule))
    for name, hint in get_type_hints(Start, include_extras=True).items()
}
"""The rule of each field, in the order of the documentation."""
AT_START: Final = tuple(RULES)
"""Fields of the settings in `[broker]`."""
NAMES: Final = {name.replace("_", "-"): name for name in AT_START} | {
    rule.alias: name for name, rule in RULES.items() if rule.alias
}
"""Fields by the names of the settings file, and of Artemis."""
RELOADABLE: Final = tuple(name for name, rule in RULES.items() if rule.reloadable)
DEFAULTS: Final = Start()


def read_start(name: str, value: object, typed: bool = True) -> object:
    """Return the value of a start-up setting, by its name in the settings file. Raises ConfigError with the rule.

    `typed`: the value is from a settings file; values of the environment are text.
    """
    kind = RULES[NAMES[name]].kind
    found: object = kind.parse(value, typed)
    if found is INVALID:
        raise ConfigError(kind.fault(name, value))
    return found
