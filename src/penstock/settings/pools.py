"""Table of pools: every bound of the node, how it is shared, and the behaviour at the bound.

A pool that clients fill is shared by users and virtual hosts (`penstock.flow.pool`). A pool is created only from its
row, so every pool has a row. The table of bounds per node in docs/inside/memory.md is generated from these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024
BOTH: Final = "user and virtual host"
USER: Final = "user"
VHOST: Final = "virtual host"
SHARED: Final = (BOTH, USER, VHOST)


@dataclass(frozen=True)
class PoolRow:
    """One bound of the node."""

    key: str
    """Name in metrics and in answers; empty for a bound without shares."""
    name: str
    """Displayed name."""
    bound: str
    """The bound, as text for the documentation."""
    at_bound: str
    """Behaviour at the bound."""
    shared: str
    """Sharing by BOTH, USER or VHOST; otherwise the reason why the pool is not shared."""
    unit: str = ""
    limit: int = 0
    """The limit in units; 0 if a setting or the memory of the node decides."""
    constants: tuple[str, ...] = ()
    """Constants of the code that are the bound, as MODULE.NAME."""

    def is_shared(self) -> bool:
        """Return whether users or virtual hosts have shares."""
        return self.shared in SHARED


MARKS: Final = PoolRow(
    "sink_marks", "marks of queries that publish",
    "10,000, 0.5 KiB each in memory and 1 KiB at most in the store; a week without a request",
    "those idle for an hour make room for others, first of who has most; or the batch is refused (506)",
    BOTH, "marks", 10_000,
)  # fmt: skip
CURSORS: Final = PoolRow(
    "cursors", "cursors", "10,000; 10,000 queues of one", "refused (506)", BOTH, "cursors", 10_000,
    ("ranges.cursors.POSITIONS_MAX",),
)  # fmt: skip
BRIDGES: Final = PoolRow(
    "bridges", "shovels and bridges that run", "2,000, each with 2 connections of the worker; others are paused",
    "refused (506)", BOTH, "bridges", 2_000,
)  # fmt: skip
LEASES: Final = PoolRow(
    "leases", "leases of batch reads", "1,000, for an hour at most without a block; 1,000 fetched parts of a range",
    "finished ones make room; or refused (506)", BOTH, "leases", 1_000, ("ranges.leases.PARTS_MOST",),
)  # fmt: skip
BLOCKS: Final = PoolRow(
    "blocks", "published blocks that are not messages yet",
    "256 MiB, besides the node's memory limit, for whose gate they may wait", "the next one is refused (506)", BOTH,
    "bytes", 256 * MIB,
)  # fmt: skip
WAITING_TASKS: Final = PoolRow(
    "waiting_tasks", "waiting sink tasks that are counted", "10,000, for 15 s", "the next one is not counted", BOTH,
    "tasks", 10_000,
)  # fmt: skip
TOPICS: Final = PoolRow(
    "topics", "bounds of routing keys", "10,000, 1.5 KiB each",
    "empty ones are dropped; further keys of an exchange with the same bound share one", VHOST, "keys", 10_000,
)  # fmt: skip
SUSPENDED: Final = PoolRow(
    "suspended_links", "AMQP 1.0: suspended links", "1,000 of a container, 10,000 in all, 500 B each; 30 minutes",
    "the one suspended first expires, of who has most; a receiver's messages return", BOTH, "links", 10_000,
)  # fmt: skip
OUTCOMES: Final = PoolRow(
    "suspended_outcomes", "AMQP 1.0: outcomes for suspended senders", "100,000, 150 B each", "as above", BOTH,
    "outcomes", 100_000,
)  # fmt: skip
DYNAMIC_NODES: Final = PoolRow(
    "dynamic_nodes", "AMQP 1.0: dynamic nodes that outlive their links", "10,000", "refused (506)", BOTH, "nodes",
    10_000,
)  # fmt: skip
ARRIVING: Final = PoolRow(
    "arriving", "messages that arrive in pieces",
    "a quarter of the node's memory, or 1 GiB where that is unbounded; counted in the node's memory",
    "the connection with the most, of the user with the most, gives up its largest one", BOTH, "bytes",
)  # fmt: skip
ENDED_SESSIONS: Final = PoolRow(
    "ended_channels", "channels that have ended with held publishes", "4,096, 10 KiB a channel",
    "dropped, counted and logged; the hold deadline", USER, "channels", 4_096,
)  # fmt: skip
ENDED_BYTES: Final = PoolRow(
    "ended_bytes", "held publishes of channels that have ended", "64 MiB (charges)",
    "dropped, counted and logged; the hold deadline", USER, "bytes", 64 * MIB,
)  # fmt: skip
HTTP_SOCKETS: Final = PoolRow(
    "http_sockets", "HTTP: sockets of users", "192",
    "an idle one is closed, first of who has most, or the request refused (503), unless it is a health check", USER,
    "sockets", 192,
)  # fmt: skip
HTTP_BODIES: Final = PoolRow(
    "http_bodies", "request bodies of HTTP that are being read or acted on, and of detached jobs",
    "64 MiB; 30 s to arrive", "503; 408; a detached job is refused (506)", USER,
    "bytes", 64 * MIB,
)  # fmt: skip
HTTP_HELD: Final = PoolRow(
    "http_held", "HTTP: held messages", "64 MiB (charges)", "503; the hold deadline", USER, "bytes", 64 * MIB,
)  # fmt: skip
HTTP_SCRAPES: Final = PoolRow(
    "http_scrapes", "HTTP: scrapes in progress on the API", "8; 30 s to read one", "503", USER, "scrapes", 8,
)  # fmt: skip
CONSOLES: Final = PoolRow(
    "consoles", "HTTP: consoles with events", "64, of one user 8",
    "503; a slow one misses maps, and is closed after 30 s", USER, "consoles", 64,
    ("server.http.console.hub.OF_USER_MOST",),
)  # fmt: skip
LANES: Final = PoolRow(
    "lanes", "lanes of publishers", "100,000, of one user 20,000; 1 KiB each with a session, half of it without",
    "one without a session makes room, of the same user; or refused (506)", BOTH, "lanes", 100_000,
    ("core.publish.producer_lanes.USER_LANES_MAX",),
)  # fmt: skip
DETACHED: Final = PoolRow(
    "detached_cursors", "detached cursors, for their readers", "1,000, 300 B each",
    "the oldest is forgotten, of the virtual host with most", VHOST, "cursors", 1_000,
)  # fmt: skip
STORED_TAGS: Final = PoolRow(
    "stored_tags", "AMQP 1.0: delivery-tags and awaited outcomes of a connection beyond 256",
    "a sixteenth of `memory-capacity`, 256 MiB at most; 288 B each, 256 at a time; counted in the node's memory",
    "the oldest of the link is forgotten", USER, "bytes", 256 * MIB,
)  # fmt: skip
LISTS: Final = PoolRow(
    "lists", "lists whose next page a client has not asked for",
    "64, with some 1,000 references each; 100,000 in all lists in an order",
    "the oldest one is forgotten, of who has most", USER, "lists", 64,
)  # fmt: skip

NODE_ANSWERS: Final = PoolRow(
    "node_answers", "shards: answers of other processes that a node joins",
    "64 MiB as they arrive, some 5 times as much while they are joined; one answer 32 MiB", "refused (506)", USER,
    "bytes", 64 * MIB, ("cluster.asking.ANSWER_MOST",),
)  # fmt: skip
JOBS: Final = PoolRow(
    "jobs", "jobs that are not done", "256, 2 KiB each besides their requests", "refused (506)", USER, "jobs", 256,
)  # fmt: skip


def bound(name: str, bound: str, at_bound: str, reason: str, *constants: str) -> PoolRow:
    """Return the row of a bound that users do not share, with the reason; `constants` as in `PoolRow`."""
    return PoolRow("", name, bound, at_bound, reason, constants=constants)


BOUNDS: Final = (
    bound(
        "messages of all queues",
        "`memory-capacity`; 40 % of [the node's memory](#the-nodes-memory) by default",
        "its gate closes; queues below their guaranteed share pass even then, within a tenth of it",
        "its gate gives turns, fair by bytes",
    ),
    bound(
        "results of a Spark query beyond a limit in which it pins messages",
        "half of the capacity of that limit, for each such query (decision 56)",
        "its publishes wait",
        "of one object, request or connection",
    ),
    bound("virtual hosts", "1,000, 10 KiB each", "refused with 506", "administrators alone add to it"),
    bound(
        "arguments of one queue, exchange, binding or consumer",
        "16 KiB (`arguments-octets-max`)",
        "406",
        "of one object, request or connection",
    ),
    bound(
        "arguments of all, and consumer tags",
        "512 MiB of memory (`arguments-bytes-max`), at most an eighth of the node's memory",
        "506",
        "virtual host: half",
    ),
    bound(
        "how arguments are charged",
        "by Python object, at least what they take (up to 36 times their bytes)",
        "counted in the node's memory; returned with the object",
        "of one object, request or connection",
    ),
    bound(
        "pieces of large messages that are in memory, with a store: of transient ones, and written ones",
        "128 MiB, beside their charges while they arrive",
        "the oldest written ones leave the memory; then the oldest of transient messages are written",
        "no one is refused: they go to the disk",
    ),
    bound(
        "pieces of large messages that are not written",
        "64 MiB",
        "connections that are sending a large message are not read",
        "connection, 4 MiB each; by user on the way to the disk",
    ),
    bound(
        "the way to the disk: what is recorded and in no transaction yet",
        "what the disk writes in 12 ms, 1 to 16 MiB (charges; 8 KiB for a change)",
        "a connection over its share is not read until a transaction takes enough, unless the store cannot be written",
        "user, as much as is left free; and connection, as much as its user leaves free",
        "core.journal.write_shares.BOUND_MOST",
    ),
    bound(
        "AMQP 1.0: deliveries that a suspended receiver keeps",
        "4,096; 350 B each when the link is resumed, counted in the node's memory until the link ends",
        "the oldest are kept, the others are released",
        "of one object, request or connection",
    ),
    bound(
        "connections before the login",
        "1,000; 500 of one address, and of this machine; 10 KiB each ([users](../users.md))",
        "one older than 2 s, or the new one, is closed; the address with the most goes first",
        "address",
    ),
    bound("of these, handshakes of TLS", "half of those of an address", "the oldest handshake is closed", "address"),
    bound(
        "open connections",
        "`connections-max` in all, `connections-address-max` of one address other than this machine; none by default",
        "opening is refused (530)",
        "address, virtual host and user, by settings",
    ),
    bound(
        "shards: clients that are logged in and that no process of their shard has taken",
        "10,000 of a shard, and half of the open files of all; 64 on their way; 3 KiB each; most of `handshake-s`",
        "closed (320) with the reason",
        "of one shard, in order",
        "cluster.passing.WAITING_MOST",
        "cluster.passing.UNANSWERED_MOST",
    ),
    bound(
        "shards: clients that the node counts",
        "200 B each, as many as there are connections",
        "see open connections",
        "address and user, by settings",
    ),
    bound(
        "addresses with wrong passwords; users and addresses that have logged in",
        "10,000 each, 250 B",
        "the one longest unused is forgotten",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "users",
        "100,000 of the store, and as many of the settings file; 1 KiB each",
        "refused with 506",
        "administrators alone add to it",
    ),
    bound(
        "permissions and topic permissions",
        "1,000,000 of all users, 0.5 KiB each; 64 MiB of names, tags and expressions; an expression has 4 KiB",
        "506; a longer expression 406",
        "administrators alone add to it",
    ),
    bound(
        "compiled expressions",
        "256, of 1 MiB each at most",
        "the oldest is compiled again when it is needed; a larger one is refused",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "what a connection may do",
        "32 permitted names and 32 topics",
        "the oldest is asked for again",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "keys of users for SCRAM",
        "one set for each user of the settings file that has logged in so, 500 B",
        "",
        "administrators alone add to it",
    ),
    bound(
        "one login over AMQP 1.0",
        "responses of 4,096 bytes, of 512 in SCRAM",
        "refused",
        "of one object, request or connection",
    ),
    bound(
        "delayed answers to wrong passwords",
        "16 of an address, 10,000 in all, 8 s at most; also of clients that are gone",
        "refused at once",
        "address",
    ),
    bound(
        "passwords that wait to be verified",
        "2,000, and 500 of one address; a client that closes its connection loses its place",
        "refused at once",
        "address",
    ),
    bound(
        "passwords that are known without their hash",
        "10,000 users, ten minutes each, 300 B",
        "the one verified longest ago is verified again",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "tokens", "16 KiB, and 1,000 scopes that concern the broker", "refused", "of one object, request or connection"
    ),
    bound(
        "keys of tokens",
        "1 MiB of a file or answer, 100 keys; 10 s for a fetch",
        "the fetch fails, and the old keys serve for an hour",
        "administrators alone add to it",
    ),
    bound(
        "logins a second by address (`login-rate-address-max`)",
        "10,000 addresses",
        "the one used longest ago is forgotten",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "logins by an HTTP back end that are remembered (`cache_s`)",
        "10,000 users",
        "the oldest is forgotten",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "questions to an HTTP back end",
        "one for each of `threads` (4), answers of 4,096 bytes; 2,000 wait, 500 of an address",
        "refused",
        "address",
    ),
    bound(
        "passwords that are being verified",
        "one for each thread (`login-threads`), 16 MiB each",
        "the next waits",
        "address: its line gives turns",
    ),
    bound(
        "input of a client whose password is being verified",
        "64 KiB",
        "it is not read",
        "of one object, request or connection",
    ),
    bound(
        "closed connections whose peer has not closed its side",
        "1,000, for 6 s; their input is dropped",
        "more are closed at once",
        "no one is refused: they are closed at once",
    ),
    bound(
        "sockets at the file limit (`ulimit -n`)",
        "the last 32 descriptors (an eighth of a small limit) are reserved for files",
        "new sockets are accepted and closed at once",
        "address, before the login",
    ),
    bound("read buffer", "one of 256 KiB for all connections", "", "no one keeps it"),
    bound(
        "counts of users beyond their connections",
        "1,000 users, 0.2 KiB each and 11 KiB of samples",
        "those of the first are forgotten",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "gates and rates of users that publish over HTTP",
        "1,000 users, 1 KiB each",
        "those of the one that has published nothing for longest are forgotten",
        "one entry each; one in use stays",
    ),
    bound(
        "operator's gates, rates",
        "one gate (1 KiB) each",
        "those of users and connections end with the last connection",
        "administrators alone add to it",
    ),
    bound(
        "gate statistics",
        "450 B per producer and gate that met; 100 entries per gate of producers that left",
        "",
        "of one object, request or connection",
    ),
    bound(
        "settings of queues with equal arguments",
        "1,000 as read and as resolved, 4 KiB each",
        "all are forgotten",
        "a cache: the oldest goes, and is made again",
    ),
    bound(
        "settings by pattern",
        "10,000 patterns; 300 B each and 400 B a setting",
        "`set` is refused (506), a reload is logged",
        "administrators alone add to it",
    ),
    bound(
        "stages of batches",
        "the capacity of the target, 256 MiB for a batch, an hour without a request; counted in virtual host and node",
        "the task is refused (311), or waits for room",
        "the capacity of its target, its virtual host and the node",
    ),
    bound(
        "batches that are entering their queues",
        "one at a time; up to 256 MiB, and what others publish meanwhile",
        "other batches wait in line",
        "a line gives turns",
    ),
    bound("queues of a stage", "1,000", "refused (311)", "of one object, request or connection"),
    bound(
        "control requests (`penstock.control`)",
        "256 KiB and 10,000 values each, with definitions 8 MiB",
        "311, naming size and bound",
        "of one object, request or connection",
    ),
    bound(
        "imported definitions",
        "4 MiB, 20,000 objects at once; imports into one virtual host run one after the other",
        "refused. HTTP: 64 MiB of bodies; AMQP: one a connection",
        "user: imports go on in turns",
    ),
    bound(
        "decoded pages of streams that consumers share",
        "32 MiB, 8 reads under way",
        "the least recently used ones are read again; a read waits for its turn",
        "one cache for all: a page serves every consumer of its stream",
        "core.queue.log_chunks.READS_MOST",
    ),
    bound(
        "finished jobs",
        "100, with 50 items of each list of their results",
        "the oldest is forgotten",
        "one list for all: administrators start jobs",
        "management.jobs.KEPT_MOST",
        "management.jobs.RESULT_ROWS_MOST",
    ),
    bound(
        "policies and operator policies",
        "1,000 of each in a virtual host, 10,000 in all; expressions of 4 KiB (256 KiB compiled), 24 KiB a definition",
        "506, or 406 for one that is too large",
        "administrators alone add to it",
    ),
    bound("parameters", "10,000 of 24 KiB, 16 MiB together", "506, or 406", "administrators alone add to it"),
    bound(
        "what the worker reports of a bridge",
        "3 texts and 20 sentences of 1,000 characters",
        "the rest is cut off",
        "one report for each bridge",
        "management.bridges.TEXT_MOST",
        "management.bridges.WHY_MOST",
    ),
    bound(
        "answer of `list`, `definitions export`",
        "500 objects",
        "the next page is requested",
        "of one object, request or connection",
    ),
    bound(
        "answer of `penstock why` without a name",
        "20 gates, 20 slowed connections, and 20 that wait for the store",
        "the others are counted; `penstock why QUEUE`",
        "of one object, request or connection",
    ),
    bound(
        "answer of `penstock status`",
        "500 connections and 500 queues",
        "the others are counted; lists have all",
        "of one object, request or connection",
    ),
    bound(
        "channels, connections and queues that are ending",
        "what they had; at least 4,000 messages are returned in a turn",
        "see [architecture](architecture.md#ends-that-take-a-while)",
        "of one object, request or connection",
    ),
    bound(
        "work in slices",
        "100 B for each purge, deletion, rejection, requeue and settlement under way",
        "its messages still count in their queues. See [architecture](architecture.md#work-in-slices)",
        "user: slices go on in turns",
    ),
    bound(
        "messages that are purged, deleted or acknowledged, and not freed yet",
        "what the queue's capacity was; counted nowhere",
        "32,000 are freed in a turn, or 16,000 that leave the store",
        "counted in turns",
    ),
)
"""Bounds of the node that have no shares, each with the reason."""
POOLS: Final = (
    TOPICS, SUSPENDED, OUTCOMES, DYNAMIC_NODES, ARRIVING, ENDED_SESSIONS, ENDED_BYTES, MARKS, WAITING_TASKS, CURSORS,
    LEASES, LANES, DETACHED, STORED_TAGS, BLOCKS, LISTS, HTTP_SOCKETS, HTTP_BODIES, HTTP_HELD, HTTP_SCRAPES, CONSOLES,
    JOBS, NODE_ANSWERS, BRIDGES,
)  # fmt: skip
"""Pools that users or virtual hosts share."""
