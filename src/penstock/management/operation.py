"""Operation: a row with the name, rights, fields and function of one request to the broker.

The planes are derived from rows: the control exchange takes those with a name, HTTP those with paths. The audit log has
the result of `before`. Tags, permissions, fields and the tables in docs/ are derived from rows as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from penstock.access.permission import ADMINISTRATOR
from penstock.connections.control_request import ControlRequest
from penstock.describe.list_kinds import ListKind, seen_vhosts
from penstock.describe.lists import Found
from penstock.describe.table import Row
from penstock.errors import BrokerError, PreconditionFailed
from penstock.flow.wait import Waits
from penstock.flow.work import Steps
from penstock.management.jobs import Subject
from penstock.management.node import Node

Answer = Row | list[Row] | str | Found | None
"""None: the operation answers by itself; over HTTP: the object is not there.

References of a list (`Found`) are for HTTP, which writes the rows as it streams them.
"""


class Waiting:
    """Answer of an operation whose steps wait for events."""

    def __init__(self, steps: Waits[Answer]) -> None:
        self.steps = steps


class Streamed:
    """Answer too long for one piece: a row, followed by named lists whose rows are read some at a time.

    The plane writes some rows before it reads the next ones. The control exchange has none: its clients ask for pages.
    """

    def __init__(self, head: Row, lists: Iterable[tuple[str, Iterable[list[Row]]]]) -> None:
        self.head = head
        """Fields before the lists; at least one."""
        self.lists = lists


Carried = Answer | Steps[Answer] | Waiting | Streamed
Run = Callable[["Node", "ControlRequest"], Carried]
"""Function that carries out an operation: at once, in steps, in steps that wait, or while its answer is written."""
Before = Callable[["Node", "ControlRequest"], object]
"""Function that returns the state that an operation is about to change; None for none."""
About = Callable[["Node", "ControlRequest"], tuple[Subject, ...]]
"""Function that returns the objects that a job is about, the first one for people."""
DETACH: Final = "detach"
"""Field of each operation that is a job: the request is answered with the row of the job at once."""
CHANGES: Final = "changes"
"""Steps that change much: one after the other, over as many turns as needed."""
ASKS: Final = "asks"
"""Steps that read much, concurrently with changes."""
LOOKS: Final = "looks"
"""The same for onlookers: they delay others less."""
ROW: Final = "row"
OBJECT: Final = "object"
PAGES: Final = "pages"
"""An answer of its own; an object of a list, of which HTTP reads samples from the query; or a list, of which it reads
columns, order, page and samples.
"""
VHOST: Final = "vhost"
CATALOGUE: Final = "catalogue"
ALL: Final = "all"
NODE: Final = "node"
"""Brokers that answer, where each of several has some virtual hosts: the one with the virtual host; any that has the
users, permissions, limits, global parameters and names of virtual hosts; all; or the one that was asked, about itself.
"""
JOINED: Final = "joined"
"""Field of a request that goes to several brokers: each adds to its answer what joining needs. No plane reads it."""
ENTERED: Final = "a permission in the virtual host"
"""The user may open the virtual host, or is an administrator."""
SEEN: Final = "a permission in the virtual host, or the tag monitoring"
ANYWHERE: Final = ""
"""The virtual host of a path does not matter, or it has none."""


NO_FIELDS: Final[Mapping[str, object]] = {}


class Need(NamedTuple):
    """Requirements of an operation: a tag ("" for none), permissions, and access to the virtual host."""

    tag: str
    permissions: tuple[str, ...] = ()
    """Each is a kind (configure, write or read) and an object; checked where the operation is carried out."""
    vhost: str = ANYWHERE


def need_at(path: str, tag: str, permissions: tuple[str, ...] = (), vhost: str | None = None) -> Need:
    """Return the need at a path of HTTP: one in a virtual host is for those who may enter it, and administrators."""
    if "{vhost}" not in path or tag == ADMINISTRATOR:
        return Need(tag, permissions)
    return Need(tag, permissions, ENTERED if vhost is None else vhost)


class Choice(NamedTuple):
    """Brokers that answer, where that depends on the fields of a request."""

    of: tuple[str, ...]
    """All that may answer."""
    choose: Callable[[Row], str]


BY_VHOST: Final[Choice] = Choice((VHOST, ALL), lambda fields: VHOST if "vhost" in fields else ALL)
"""For paths of HTTP with a virtual host, and without."""
BY_EVERYWHERE: Final[Choice] = Choice((VHOST, ALL), lambda fields: ALL if fields.get("everywhere") is True else VHOST)


class Asked(NamedTuple):
    """Request that goes to several brokers."""

    fields: Row
    brokers: int
    """Number of the brokers, whose answers are joined in this order."""
    kinds: Mapping[str, ListKind]
    """Kinds of lists by name."""


Answered = Answer | BrokerError
"""Answer of one broker, in the form of JSON; None also for one that was not asked."""


class Join(NamedTuple):
    """Two pure functions: the requests to several brokers, and one answer made of theirs."""

    spread: Callable[[Asked], list[Row | None]]
    """Function that returns the fields for each broker; None for one that is not asked."""
    join: Callable[[Asked, list[Answered]], Answer]
    """Function that returns the answer. Raises the error that the client gets."""


class Route(NamedTuple):
    """Method and paths of the HTTP API by which an operation is asked for, where the method is followed by paths."""

    where: str
    purpose: str
    """One sentence, for the reference."""
    tag: str | None = None
    """Tag, if it is another one than that of the operation."""
    needed: tuple[str, ...] = ()
    """Keys that a body must have."""
    fixed: Mapping[str, object] = NO_FIELDS
    """Fields that the path stands for."""
    query: tuple[str, ...] = ()
    """Parameters of the query that are fields."""
    many: tuple[str, ...] = ()
    """Parameters of the query that may be given several times: each is a list of texts."""
    read: Callable[[Row], Row] | None = None
    """Function that makes the fields of an operation of those of path, query and body; None: they are the same."""
    vhost: str | None = None
    queried: bool = False
    """True if the query names the virtual host (default /), which the user must be able to enter."""
    body: bool | None = None
    """True to read a body, False to read none; None reads one for PUT and POST."""
    body_field: str = ""
    """Field that is the body as it came, in bytes; empty if the body is an object with the fields."""
    body_most: int = 0
    """Most bytes of a body; 0 for the bound of most paths."""
    flags: tuple[str, ...] = ()
    """Fields that may be the texts true and false, as in the query and as rabbitmqadmin sends them."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers that are fields, each with the name of the field."""
    silent: bool = False
    """True if the answer has no body: 201 where something was created, else 204."""
    spoken: Callable[[Row], bool] | None = None
    """Function that returns whether these fields ask for a body, where the answer is `silent` otherwise."""
    verdict: bool = False
    """True if the answer is the verdict of a health check: 503 for one that failed."""

    @property
    def method(self) -> str:
        """Method of the requests."""
        return self.where.split()[0]

    @property
    def reads_body(self) -> bool:
        """True if a body is read."""
        return self.method in ("PUT", "POST") if self.body is None else self.body

    @property
    def paths(self) -> list[str]:
        """Paths of the requests, below /api."""
        return self.where.split()[1:]


class Operation(NamedTuple):
    """Operation with its planes."""

    name: str
    """Routing key on the control exchange; "" for an operation that is not there."""
    run: Run
    fields: tuple[str, ...] = ()
    """Fields that a request may have: a misspelt one is refused and not passed over."""
    tag: str = ADMINISTRATOR
    permissions: tuple[str, ...] = ()
    how: str = CHANGES
    """Kind of its steps, if it takes any."""
    before: Before | None = None
    audited: bool = True
    """False for one that changes nothing that an operator set up."""
    routes: tuple[Route, ...] = ()
    gives: str = ROW
    """Kind of its answer."""
    job: About | None = None
    """Function that makes the operation a job: long work beside changes, about these objects."""
    asks: str | Choice = ""
    """Brokers that answer; "" for the one with the virtual host, if each path has one."""
    join: Join | None = None
    """Functions that join the answers of several brokers, if all may answer."""

    @property
    def known_fields(self) -> tuple[str, ...]:
        """Fields of a request on the control exchange."""
        return self.fields if self.job is None else (*self.fields, DETACH)


class DefinedNoun:
    """Definitions of a noun in files; `penstock.operations.definitions_kinds` has what they are."""


class Noun(NamedTuple):
    """Noun that is added to a broker (`ControlApi.add`): control operations, paths of HTTP, lists and definitions."""

    name: str
    operations: tuple[Operation, ...]
    kinds: tuple[ListKind, ...] = ()
    defined: DefinedNoun | None = None


def job_steps(row: Operation, node: Node, request: ControlRequest) -> Steps[Answer]:
    """Carry out the operation of a job, which answers at once or in steps."""
    answer = row.run(node, request)
    assert not isinstance(answer, (Waiting, Streamed, Found)), f"'{row.name}' is a job, and jobs answer in steps"
    if answer is None or isinstance(answer, (dict, list, str)):
        return answer
    return (yield from answer)


def looking(
    name: str,
    run: Run,
    fields: tuple[str, ...] = (),
    tag: str = ADMINISTRATOR,
    routes: tuple[Route, ...] = (),
    asks: str | Choice = "",
    join: Join | None = None,
    gives: str = ROW,
) -> Operation:
    """Return an operation that changes nothing."""
    return Operation(
        name, run, fields, tag=tag, how=LOOKS, audited=False, routes=routes, gives=gives, asks=asks, join=join
    )


def name_of(row: Operation) -> str:
    """Return the name of an operation among all: that of the control exchange, or else its first method and path."""
    return row.name or " ".join(row.routes[0].where.split()[:2])


def may_answer(row: Operation) -> tuple[str, ...]:
    """Return all brokers that may answer an operation; none if its row does not say, and its paths do not either."""
    if isinstance(row.asks, Choice):
        return row.asks.of
    return (row.asks,) if row.asks else _by_paths(row)


def who_answers(row: Operation, fields: Row) -> str:
    """Return which brokers answer a request."""
    if isinstance(row.asks, Choice):
        return row.asks.choose(fields)
    brokers = may_answer(row)
    assert brokers, f"operation '{row.name or row.routes[0].where}' does not say which brokers answer: set 'asks'"
    return brokers[0]


def _by_paths(row: Operation) -> tuple[str, ...]:
    paths = [path for route in row.routes for path in route.paths]
    return (VHOST,) if paths and all("{vhost}" in path for path in paths) else ()


T = TypeVar("T")
ROW_WORK: Final = 5
"""Units of work per listed row."""


FAILED: Final = "failed"
"""Status of the verdict of a health check that failed; that of others is `ok`."""


def verdict(reason: str = "", **named: object) -> Row:
    """Return the verdict of a health check: it is passed without a reason."""
    passed: Row = {"status": FAILED, "reason": reason} if reason else {"status": "ok"}
    return {**passed, **named}


def rows_steps(node: Node, subjects: Iterable[T], row: Callable[[T], Row]) -> Steps[list[Row]]:
    """Return the rows of subjects in steps."""
    return lists_steps(node, subjects, lambda subject: [row(subject)])


def lists_steps(node: Node, subjects: Iterable[T], rows: Callable[[T], list[Row]]) -> Steps[list[Row]]:
    """Return the rows of subjects that have several, or none, in steps."""
    result: list[Row] = []
    for subject in subjects:
        its = rows(subject)
        if node.broker.work.spend(ROW_WORK * max(len(its), 1)):
            yield
        result += its
    return result


def only_one(names: Iterable[str], given: list[str]) -> str:
    """Return the one of these names that a request gives. Raises PreconditionFailed (406) for none or several."""
    if len(given) != 1:
        raise PreconditionFailed(f"name exactly one of {', '.join(names)}; given are {', '.join(given) or 'none'}")
    return given[0]


def entered(node: Node, request: ControlRequest) -> list[str]:
    """Return the virtual host that the path names, or else all that the user may enter; all for an administrator."""
    if "vhost" in request.fields:
        return [request.vhost.name]
    return [vhost.name for vhost in seen_vhosts(node, request.access.rules)]
