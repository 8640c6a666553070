"""A toy noun: toys, with a size. This file is all that a broker needs of it; `toy_commands` is the command line's."""

from __future__ import annotations

from typing import Any, Final

from penstock.access.permission import MANAGEMENT, POLICYMAKER
from penstock.connections.control_request import ControlRequest
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import Groups, ListKind
from penstock.describe.table import DescribedNode, Field, Row, Table
from penstock.errors import PreconditionFailed
from penstock.management.node import Node
from penstock.management.operation import CATALOGUE, Noun, Operation, Route
from penstock.operations.definitions_kinds import DefinedSection, Definitions, Undo
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.lists import listing, showing


class Toy:
    """A toy."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def row(self) -> Row:
        """Return it as a row."""
        return {"name": self.name, "size": self.size}


TOY: Final[Table[Toy]] = Table(
    Field("name", lambda toy, at: toy.name),
    Field("size", lambda toy, at: toy.size, unit="centimetres"),
)


def toys_of(box: dict[str, Toy]) -> Noun:
    """Return the noun of the toys in a box."""

    def groups(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
        yield None, list(box.values())

    def rows(node: Node, vhost: VirtualHost | None) -> Groups:
        yield None, [toy.row() for toy in box.values()]

    def before(node: Node, request: ControlRequest) -> Row | None:
        there = box.get(request.text("name"))
        return None if there is None else there.row()

    def declare(node: Node, request: ControlRequest) -> Row:
        name, size = request.text("name"), request.number("size")
        if not size:
            raise PreconditionFailed(f"toy '{name}': 'size' must be at least 1, not 0")
        created = name not in box
        box[name] = Toy(name, size)
        return {"created": created}

    def put(node: Node, entry: Entry, value: int, there: int | None) -> Undo:
        name = entry.text("name")
        box[name] = Toy(name, value)
        return lambda: "" if box.pop(name, None) is None or there is None else _put_back(box, name, there)

    def find(node: Node, entry: Entry) -> Any:
        there = box.get(entry.text("name"))
        return None if there is None else there.size

    kind = ListKind("toys", groups, TOY, lambda toy: str(toy.name), by_name=True, everywhere=True, copied=True)
    definitions = Definitions(
        Section("toys", "name size", texts="name", numbers="size"),
        subject=lambda entry: f"toy '{entry.text('name')}'",
        read=lambda node, entry: entry.fields["size"],
        find=find,
        check=lambda node, entry, value, planned: None,
        put=put,
        row=lambda size: {"size": size},
    )
    return Noun(
        "toys",
        (
            Operation("toy.declare", declare, ("name", "size"), tag=POLICYMAKER, before=before, asks=CATALOGUE, routes=(
                Route("PUT /toys/{name}", "Declare a toy.", needed=("size",), silent=True),
            )),
            listing(kind, "GET /toys", "List toys."),
            showing("GET /toys/{name}", "Show a toy.", before, MANAGEMENT, asks=CATALOGUE),
        ),
        (kind,),
        DefinedSection(definitions, rows, everywhere=True),
    )  # fmt: skip


def _put_back(box: dict[str, Toy], name: str, size: int) -> str:
    box[name] = Toy(name, size)
    return ""
