"""Commands of the toy noun of `toys`."""

from __future__ import annotations

from typing import Final

from penstock.operations.command import BROKER, Columns, Command, Field, Listing
from penstock.operations.commands import RULES, Noun

NOUN: Final = Noun(RULES, "Declare and list toys.")
COMMANDS: Final = (
    Listing("toys list", "list", "List the toys.\n\nFor example: penstock toys list --sort -size",
            Columns(("name", "size")), "items", fixed={"kind": "toys", "everywhere": False, "sort": ["name"]},
            where=BROKER),
    Command("toys declare", "toy.declare", "Declare toy NAME.\n\nFor example: penstock toys declare bear size=30",
            (Field("name", metavar="NAME"), Field("size", "Its size.", int, ...)), "toy {name} is there",
            where=BROKER),
)  # fmt: skip
