"""Operation: one row that says what may be asked of the broker, by whom, and what is done.

The planes are derived from rows: the control exchange takes those with a name, HTTP those with paths. The audit log has
what `before` returns. Tags, permissions, fields and the tables in docs/ come of them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from penstock.access.tags import ADMINISTRATOR
from penstock.describe.table import Row
from penstock.flow.work import Steps

if TYPE_CHECKING:
    from penstock.management.node import Node
    from penstock.protocols.common.control_request import ControlRequest

Answer = Row | list[Row] | None
Run = Callable[["Node", "ControlRequest"], Answer | Steps[Answer]]
"""Function that carries out an operation: at once, or in steps.

None: it answers by itself; over HTTP: the object is not there.
"""
Before = Callable[["Node", "ControlRequest"], object]
"""Function that returns the state that an operation is about to change; None for none."""
CHANGES: Final = "changes"
"""Steps that change much: one after the other, over as many turns as needed."""
ASKS: Final = "asks"
"""Steps that read much, concurrently with changes."""
LOOKS: Final = "looks"
"""The same for onlookers: they delay others less."""
ENTERED: Final = "a permission in the virtual host"
"""The user may open the virtual host, or is an administrator."""
SEEN: Final = "a permission in the virtual host, or the tag monitoring"
ANYWHERE: Final = ""
"""The virtual host of a path does not matter, or it has none."""


class Need:
    """Requirements of an operation: a tag ("" for none), access to the virtual host, and permissions."""

    def __init__(self, tag: str, permissions: tuple[str, ...] = (), vhost: str = ANYWHERE) -> None:
        self.tag = tag
        self.permissions = permissions
        """Each is a kind (configure, write or read) and an object; checked where the operation is carried out."""
        self.vhost = vhost


def need_at(path: str, tag: str, permissions: tuple[str, ...] = (), vhost: str | None = None) -> Need:
    """Return the need at a path of HTTP: one in a virtual host is for those who may enter it, and administrators."""
    if "{vhost}" not in path or tag == ADMINISTRATOR:
        return Need(tag, permissions)
    return Need(tag, permissions, ENTERED if vhost is None else vhost)


class Route:
    """Method and paths of the HTTP API by which an operation is asked for, where the method is followed by paths."""

    def __init__(
        self,
        where: str,
        purpose: str,
        *,
        tag: str | None = None,
        needed: tuple[str, ...] = (),
        fixed: Mapping[str, object] | None = None,
        query: tuple[str, ...] = (),
        read: Callable[[Row], Row] | None = None,
        vhost: str | None = None,
        queried: bool = False,
        body: bool = False,
        flags: tuple[str, ...] = (),
        silent: bool = False,
    ) -> None:
        method, *paths = where.split()
        self.method = method
        self.paths = paths
        self.purpose = purpose
        """One sentence, for the reference."""
        self.tag = tag
        """Tag, if it is another one than that of the operation."""
        self.needed = needed
        """Keys that a body must have."""
        self.fixed: Mapping[str, object] = fixed or {}
        """Fields that the path stands for."""
        self.query = query
        """Parameters of the query that are fields."""
        self.read = read
        """Function that makes the fields of an operation of those of path, query and body; None: they are the same."""
        self.vhost = vhost
        self.queried = queried
        """True if the query names the virtual host (default /), which the user must be able to enter."""
        self.body = body or method in ("PUT", "POST")
        """True if a body is read."""
        self.flags = flags
        """Fields that may be the texts true and false, as in the query and as rabbitmqadmin sends them."""
        self.silent = silent
        """True if the answer has no body: 201 where something was created, else 204."""


class Operation:
    """Operation with its planes."""

    def __init__(
        self,
        name: str,
        run: Run,
        fields: tuple[str, ...] = (),
        *,
        tag: str = ADMINISTRATOR,
        permissions: tuple[str, ...] = (),
        how: str = CHANGES,
        before: Before | None = None,
        audited: bool = True,
        routes: tuple[Route, ...] = (),
    ) -> None:
        self.name = name
        """Routing key on the control exchange; "" for an operation that is not there."""
        self.run = run
        self.fields = fields
        """Fields that a request may have: a misspelt one is refused and not passed over."""
        self.need = Need(tag, permissions)
        self.how = how
        """Kind of its steps, if it takes any."""
        self.before = before
        self.audited = audited
        """False for one that changes nothing that an operator set up."""
        self.routes = routes


def looking(
    name: str,
    run: Run,
    fields: tuple[str, ...] = (),
    *,
    tag: str = ADMINISTRATOR,
    permissions: tuple[str, ...] = (),
    routes: tuple[Route, ...] = (),
) -> Operation:
    """Return an operation that changes nothing."""
    return Operation(name, run, fields, tag=tag, permissions=permissions, how=LOOKS, audited=False, routes=routes)
