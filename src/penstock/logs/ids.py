"""Log ids: every record of the broker's log with its level, its meaning and the action to take (docs/logs.md).

`QUE-`, `CHN-`, `MST-`, `VHT-`, `BRK-` and `CON-` ids are Broker-J's, with its words; `PST-` ids are Penstock's own. The
module is pure: levels are the numbers of Python's `logging`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEBUG: Final = 10
INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40
"""Levels, as in `logging`."""
LEVEL_NAMES: Final[dict[int, str]] = {DEBUG: "debug", INFO: "info", WARNING: "warning", ERROR: "error"}
"""Names of the levels, as the setting `log-level` has them."""

NOTHING: Final = "nothing"
"""Action for a record of ordinary operation."""

# Ids that are used in more than one module
STARTED: Final = "BRK-1001"
STOPPING: Final = "BRK-1003"
READY: Final = "BRK-1004"
STOPPED: Final = "BRK-1005"
OPENED: Final = "CON-1001"
CLOSED: Final = "CON-1002"
INACTIVE: Final = "CON-1003"
DROPPED: Final = "CON-1004"
CLOSED_BY_BROKER: Final = "PST-2001"
LOGIN_REFUSED: Final = "PST-2002"
HANDSHAKE_REFUSED: Final = "PST-2003"
CLOSED_BRIEFLY: Final = "PST-1022"
BLOCKED_BRIEFLY: Final = "PST-1023"
SOCKET_REFUSED: Final = "PST-2004"
HTTP_REFUSED: Final = "PST-2005"
REQUEST_REFUSED: Final = "PST-2006"
SECRET: Final = "PST-2007"
RESPONSE_DROPPED: Final = "PST-2008"
REPLY_DROPPED: Final = "PST-2009"
SLOW_TURN: Final = "PST-2010"
LATE_LOOP: Final = "PST-2011"
FILE_LIMIT: Final = "PST-2012"
LONG_ENTRY: Final = "PST-2013"
LOG_DROPPED: Final = "PST-2020"
LOG_CROWDED: Final = "PST-2021"
LOG_LEVEL: Final = "PST-2022"
RECORDS_UNWRITTEN: Final = "PST-2023"
SPANS_DROPPED: Final = "PST-2024"
LIBRARY: Final = "PST-2029"
CHANGED: Final = "PST-2030"
RELOADED: Final = "PST-2031"
RELOAD_REFUSED: Final = "PST-2032"
NEEDS_RESTART: Final = "PST-2033"
OPEN_FILE: Final = "PST-2034"
ONLY_GUEST: Final = "PST-2035"
WITHOUT_EFFECT: Final = "PST-2036"
CONSOLE_UNSERVED: Final = "PST-2037"
FRAME_TOO_SMALL: Final = "PST-2038"
JOB_STARTED: Final = "PST-2045"
JOB_ENDED: Final = "PST-2046"
JOB_FAILED: Final = "PST-2047"
DEFINITIONS: Final = "PST-2064"
ALARM_RAISED: Final = "PST-2060"
ALARM_CLEARED: Final = "PST-2061"
HOOK_FAILS: Final = "PST-2062"
HOOK_WORKS: Final = "PST-2063"
BRIDGES_LOST: Final = "PST-2065"
CERTIFICATE: Final = "PST-2040"
CERTIFICATE_REFUSED: Final = "PST-2041"
STANDBY: Final = "PST-2050"
RECOVERING: Final = "PST-2051"
RECOVERED: Final = "PST-2052"
DAMAGED: Final = "PST-2053"
STORE_LATE: Final = "PST-2054"
STORE_ODD: Final = "PST-2055"
STORE_UNREADABLE: Final = "PST-2056"
LEASE_RELEASED: Final = "PST-2057"
SHARD_SERVES: Final = "PST-2080"
SHARD_DIED: Final = "PST-2081"
SHARD_STOPPED: Final = "PST-2082"
INTERNAL_ERROR: Final = "PST-2090"
TRACEBACK: Final = "PST-2091"


LINES: Final = 20
"""Most lines of a log id in a second; further lines are counted, and the last line has their number."""
GATE_LINES: Final = 500
"""The same for gates and the channels that they block: one cause may close many gates."""
UNLIMITED: Final = 0


@dataclass(frozen=True)
class LogId:
    """Log id with its level, its meaning and the action to take, in Markdown, and its most lines a second."""

    name: str
    level: int
    meaning: str
    action: str = NOTHING
    lines: int = LINES
    unlimited: str = ""
    """Reason why the id has no limit; empty if it has one."""


CATALOGUE: Final[tuple[LogId, ...]] = (
    LogId(
        STARTED,
        INFO,
        "the broker starts: version, process, store, limits, and each setting that has no default",
        unlimited="once in a run",
    ),
    LogId(READY, INFO, "the store is recovered and every port is open", unlimited="once in a run"),
    LogId(
        STOPPING,
        INFO,
        "the broker stops: it closes its ports and connections, then the store",
        unlimited="once in a run",
    ),
    LogId(STOPPED, INFO, "the broker has stopped; the last record", unlimited="once in a run"),
    LogId(
        OPENED,
        INFO,
        "a connection is open: its user, address, virtual host, protocol and client; debug for an operator's command",
    ),
    LogId(CLOSED, INFO, "a connection is closed, by its client or by the broker; debug for an operator's command"),
    LogId(
        INACTIVE,
        WARNING,
        "a connection is given up: its heartbeats did not come",
        "look at the client: it hangs, or a network between drops it",
    ),
    LogId(
        DROPPED,
        WARNING,
        "a connection has ended without a close: the reason says whether its peer closed or reset the socket",
        "let the client close its connections; many at once point at a proxy or at a crash",
    ),
    LogId(
        CLOSED_BY_BROKER,
        WARNING,
        "the broker closes a connection because of an error of its client, which the text has",
        "correct the client; `penstock why --connection` tells more while it is open",
    ),
    LogId(
        LOGIN_REFUSED,
        WARNING,
        "a login was refused; the audit log has each",
        "correct the user or the password of the client; from unknown addresses: close the port to them",
        1,
    ),
    LogId(
        HANDSHAKE_REFUSED,
        INFO,
        "a peer was sent away before it had logged in: it speaks no AMQP or TLS, or was too slow",
        "look at the address: a port scan, a health check that does not speak AMQP, or a client of another protocol",
        1,
    ),
    LogId(
        SOCKET_REFUSED,
        WARNING,
        "a socket was closed because of a bound",
        "raise `handshakes-max` or `handshakes-address-max`, or find who opens so many",
        1,
    ),
    LogId(
        FILE_LIMIT,
        WARNING,
        "sockets were closed because the process may open no more files",
        "raise `LimitNOFILE`, or find who opens so many",
        1,
    ),
    LogId(
        HTTP_REFUSED,
        WARNING,
        "a socket of the HTTP API was closed because of a bound",
        "find who opens sockets without logging in",
        1,
    ),
    LogId(
        REQUEST_REFUSED,
        INFO,
        "a request was refused: its channel, link or session is closed. The first of each connection and error has a "
        "record, and the others a count",
        "correct the client: the text names what it asked for and the rule",
    ),
    LogId(
        RESPONSE_DROPPED,
        WARNING,
        "a response of the management node (AMQP 1.0) was dropped: its client gives no credit",
        "correct the client",
    ),
    LogId(REPLY_DROPPED, WARNING, "a reply of the control exchange was dropped: its queue is full, or gone", "read it"),
    LogId(SECRET, INFO, "a client has renewed its token, or tried to", "if refused: renew the token in time"),
    LogId(
        "QUE-1003",
        INFO,
        "a queue's gate closed: its publishers wait",
        "`penstock why QUEUE`; more consumers",
        lines=GATE_LINES,
    ),
    LogId("QUE-1004", INFO, "a queue's gate opened", lines=GATE_LINES),
    LogId("QUE-1005", INFO, "the overflow policy dropped or refused messages", "raise the capacity, or consume faster"),
    LogId(
        "PST-1003", WARNING, "the gate of a virtual host, the node's memory or an address closed", "`penstock status`"
    ),
    LogId("PST-1004", INFO, "that gate opened"),
    LogId(
        "PST-1005",
        INFO,
        "an operator blocked something",
        "`unblock` of its noun, when the reason is gone",
    ),
    LogId("PST-1006", INFO, "an operator released it"),
    LogId("PST-1007", INFO, "a gate that has no record of its own closed or opened"),
    LogId("PST-1008", WARNING, "a consumer is slower than its `slow-consumer-rate`", "look at the consumer"),
    LogId(
        "PST-1009",
        WARNING,
        "dead letters were lost",
        "declare their exchange and a queue, or give that queue more room",
    ),
    LogId("PST-1010", INFO, "a queue begins to page to the disk", "consume faster, or raise its capacity"),
    LogId("PST-1011", INFO, "a queue pages no more"),
    LogId("PST-1012", ERROR, "the store cannot be written: publishers wait", "look at the disk, or the database"),
    LogId("PST-1013", INFO, "the store can be written again"),
    LogId("PST-1014", INFO, "a publisher has waited its hold deadline and is stopped", "`penstock why QUEUE`"),
    LogId(
        "PST-1015",
        WARNING,
        "publishes were refused; the text has the reason",
        "[refused publishes](trouble.md#a-publish-was-refused)",
        lines=GATE_LINES,
    ),
    LogId("PST-1016", INFO, "a connection is slowed by its own work", "let it do less at once, or by more connections"),
    LogId("PST-1017", INFO, "it is slowed no more"),
    LogId("PST-1018", WARNING, "a publish without confirms is held", "let the client use publisher confirms"),
    LogId("PST-1019", WARNING, "publishes were lost: their session ended while they were held", "use confirms"),
    LogId("PST-1020", WARNING, "a cursor is too far behind", "start its reader, or delete it"),
    LogId("PST-1021", WARNING, "a cursor was deleted because it was too far behind", "start its query anew"),
    LogId(
        "PST-1024",
        WARNING,
        "a cursor was deleted because nobody was attached to it for `cursor-expires`",
        "start its query with a new checkpoint",
    ),
    LogId(
        "PST-1030",
        WARNING,
        "a consumer of a stream goes on at the first retained message, which is after its position",
        "consume faster, or retain more ([streams](streams.md))",
    ),
    LogId(
        "PST-1031",
        WARNING,
        "settled messages of a queue with `retain-time` or `retain-bytes` are not retained; the text has the reason",
        "free space on the disk, or retain less ([streams](streams.md))",
    ),
    LogId("PST-1032", INFO, "they are retained again; the text has how many were not, and when these were settled"),
    LogId(
        CLOSED_BRIEFLY,
        INFO,
        "a gate closed and opened so often that its closings are summed",
        "`penstock why QUEUE`",
        GATE_LINES,
    ),
    LogId(BLOCKED_BRIEFLY, INFO, "channels were blocked so often and so briefly that it is summed", lines=GATE_LINES),
    LogId("CHN-1002", INFO, "a client has paused or resumed its deliveries"),
    LogId("CHN-1005", INFO, "a channel became blocked", "`penstock why QUEUE`", lines=GATE_LINES),
    LogId("CHN-1006", INFO, "no gate blocks the channel any more", lines=GATE_LINES),
    LogId("CHN-1012", WARNING, "a client that obeys `channel.flow` continued to publish: its channel is closed"),
    LogId("MST-1008", WARNING, "the store is over its quota: publishers wait", "consume, or raise `disk-overfull`"),
    LogId("MST-1009", INFO, "the store is below its quota again"),
    LogId("VHT-1006", WARNING, "the disk is nearly full: publishers wait", "free space on it"),
    LogId("VHT-1007", INFO, "the disk has room again"),
    LogId(
        SLOW_TURN,
        WARNING,
        "a turn of the event loop took at least `slow-turn-ms`; the text names the connection with most of its work",
        "look for a slow disk, too few cores, or one client that asks for much at once",
        1,
    ),
    LogId(
        LATE_LOOP,
        WARNING,
        "the event loop ran late by at least `slow-turn-ms`: something besides a turn held it up",
        "look for a machine without free cores, or one that was suspended",
        1,
    ),
    LogId(
        LONG_ENTRY,
        WARNING,
        "something took much longer than its units of work say, in processor time of the event loop. The text names "
        "the connection or user who asked for it, whose input then rests",
        "let that client ask for less at once, and report the record: this work should be counted",
        5,
    ),
    LogId(
        LOG_DROPPED,
        WARNING,
        "records were dropped: standard error was not read as fast as they came",
        "look at what reads it",
        unlimited="it is itself the count of others",
    ),
    LogId(
        LOG_CROWDED,
        WARNING,
        "records were dropped: too many came at once; the text has their number",
        unlimited="it is itself the count of others",
    ),
    LogId(LOG_LEVEL, INFO, "the level of the log was changed"),
    LogId(RECORDS_UNWRITTEN, WARNING, "the flow log or the audit log cannot be written", "look at its disk"),
    LogId(
        SPANS_DROPPED,
        WARNING,
        "spans of waiting publishes are dropped: their collector takes none, or too few. One record "
        "until it takes some again",
        "look at the collector that `traces-endpoint` names; messages are not delayed",
    ),
    LogId(LIBRARY, WARNING, "a record of a library or of Python; its level is its own", "report it", 5),
    LogId(CHANGED, INFO, "users, virtual hosts, policies or settings were changed; the audit log has by whom"),
    LogId(RELOADED, INFO, "the settings file or the certificates were read again"),
    LogId(RELOAD_REFUSED, ERROR, "a reload was refused: everything stays as it was", "correct the line that it names"),
    LogId(NEEDS_RESTART, WARNING, "a changed setting takes effect only at the start", "restart the broker"),
    LogId(OPEN_FILE, WARNING, "others can read the passwords in the settings file", "`chmod o-r`, or hashes"),
    LogId(ONLY_GUEST, WARNING, "other machines can connect, but nobody can log in from them", "`penstock users add`"),
    LogId(WITHOUT_EFFECT, WARNING, "an argument is accepted and has no effect; once for each", "leave it out"),
    LogId(
        FRAME_TOO_SMALL,
        WARNING,
        "a message is passed over for the consumers of a channel: its content header is larger than a frame of theirs",
        "connect with a larger frame_max, or take the message over HTTP or AMQP 1.0",
    ),
    LogId(
        CONSOLE_UNSERVED,
        INFO,
        "the console and the HTTP API are not served: their default port is in use",
        "`http = HOST:PORT`, if they are wanted",
    ),
    LogId(JOB_STARTED, INFO, "a job started: its number, kind and subject, and the requester"),
    LogId(JOB_ENDED, INFO, "a job is done or cancelled"),
    LogId(JOB_FAILED, WARNING, "a job failed; the text has the reason", "`penstock jobs show ID`"),
    LogId(
        ALARM_RAISED,
        WARNING,
        "an [alarm](trouble.md#alarms) was raised; the text has the condition and what to do",
        "do what the text says; `penstock alarms`",
    ),
    LogId(ALARM_CLEARED, INFO, "the condition of an alarm has been gone for `alarm-clear`"),
    LogId(
        HOOK_FAILS,
        WARNING,
        "the web hook of alarms does not take them; one record until it takes some again",
        "`penstock alarms test`; look at the server of the URL",
    ),
    LogId(HOOK_WORKS, INFO, "the web hook takes alarms again"),
    LogId(
        BRIDGES_LOST,
        WARNING,
        "the worker of the bridges has ended; it is started again, and bridges go on where they were",
        "if it repeats, look at what ends it, such as a lack of memory",
    ),
    LogId(DEFINITIONS, INFO, "the setting `definitions` was read at the start: a file was imported, or is unchanged"),
    LogId(CERTIFICATE, WARNING, "a certificate ends soon, or a revocation list", "renew it; `penstock tls reload`"),
    LogId(CERTIFICATE_REFUSED, ERROR, "a certificate or key cannot be used", "correct it; the old one stays in use"),
    LogId(STANDBY, INFO, "the broker waits for the store of another broker, or has taken it over"),
    LogId(RECOVERING, INFO, "the store is being read; every few seconds"),
    LogId(RECOVERED, INFO, "the store is read"),
    LogId(DAMAGED, ERROR, "something in the store is missing or damaged", "`penstock store check`, then `repair`"),
    LogId(STORE_LATE, ERROR, "the store could not be written until the broker stopped", "look at the disk"),
    LogId(STORE_UNREADABLE, ERROR, "the store cannot be read; the broker tries again", "look at the disk"),
    LogId(
        LEASE_RELEASED,
        ERROR,
        "the event loop has hung, and the store in PostgreSQL is released for a standby. Or the loop runs again, and "
        "no other broker has taken the store",
        "look what held the process up, such as a debugger, or standard error that nobody reads",
    ),
    LogId(STORE_ODD, WARNING, "something about the store needs a look; the text says it", "do what the text says"),
    LogId(SHARD_SERVES, INFO, "the process of a shard serves"),
    LogId(SHARD_DIED, ERROR, "the process of a shard has ended, and is started again", "read the reason in the text"),
    LogId(SHARD_STOPPED, ERROR, "a shard died five times in a minute, and is not started again", "remove the reason"),
    LogId(
        INTERNAL_ERROR,
        ERROR,
        "an error of the broker's own; the first of each place has a traceback",
        "report it with the record; the broker continues unless it says that it stops",
        5,
    ),
    LogId(
        TRACEBACK,
        ERROR,
        "a line of the traceback of such an error",
        "report it with the record",
        unlimited="60 lines at most, once in a run for each of 100 places",
    ),
)
"""All log ids."""

_BY_NAME: Final = {each.name: each for each in CATALOGUE}


def level_of(name: str) -> int:
    """Return the level of an id; INFO for no id, and for an unknown id."""
    level = _BY_NAME.get(name)
    return INFO if level is None else level.level


def lines_of(name: str) -> int:
    """Return the most lines a second of an id; `UNLIMITED` for an id without a limit, and for text without an id."""
    known = _BY_NAME.get(name)
    if known is None:
        return LINES if name else UNLIMITED
    return UNLIMITED if known.unlimited else known.lines


def level_named(name: str) -> int:
    """Return the level with a name, such as "warning". Raises ValueError."""
    for level, known in LEVEL_NAMES.items():
        if known == name:
            return level
    raise ValueError(f"'{name}' is no level of the log; known are {', '.join(LEVEL_NAMES.values())}")
