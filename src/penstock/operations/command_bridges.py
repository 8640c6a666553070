"""The table of commands of bridges: they are declared, shown, paused, resumed, restarted and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from penstock.operations.command import Absent, Answer, Command, Field, Given
from penstock.settings.kind import Number, whole
from penstock.texts import counted, rounded_bytes

LABEL_CELLS: Final = 12
"""Width of the labels."""
COMPONENTS: Final[tuple[str, ...]] = ("shovel", "bridge", "federation")
_NAME: Final = Field("name", metavar="NAME", names="bridges")
_COMPONENT: Final = Field(
    "component", "Take the bridge of this component, where several have the name.", choices=COMPONENTS
)
DELIVERIES: Final[tuple[str, ...]] = ("auto", "exactly-once", "at-least-once")


def state_words(row: Answer) -> str:
    """Return the state of a bridge with its reason."""
    return f"{row['state']}: {row['reason']}" if row["reason"] else str(row["state"])


def _moved(row: Answer) -> str:
    words = f"{counted(row['carried'], 'message')} carried, {rounded_bytes(row['bytes'])}"
    for count, word in ((row["refused"], "refused"), (row["again"], "redelivered")):
        words += f", {count:,} {word}" if count else ""
    return words if row["lag"] is None else f"{words}; {row['lag']:,} in the source"


def _labelled(label: str, text: str) -> str:
    return f"{label:<{LABEL_CELLS}}{text}"


def _shown(given: Given, answer: Answer) -> Iterator[str]:
    user = f", with the rights of {answer['user']}" if answer["user"] else ""
    yield f"{answer['component']} {answer['name']} in virtual host {answer['vhost']}{user}"
    if answer.get("links"):
        for link in answer["links"]:
            yield _labelled("link", f"{link['source']} -> {link['target']}: {state_words(link)}; {_moved(link)}")
    else:
        yield _labelled("source", answer["source"])
        yield _labelled("target", answer["target"])
        yield _labelled("state", state_words(answer))
        yield _labelled("moved", _moved(answer))
        if answer["delivery"]:
            yield _labelled("delivery", answer["delivery"])
    for number, sentence in enumerate(answer["why"]):
        yield _labelled("" if number else "why", sentence)
    for number, sentence in enumerate(answer["without_effect"]):
        yield _labelled("" if number else "ignored", sentence)
    yield _labelled("value", json.dumps(answer["value"], ensure_ascii=False))


def _declared(given: Given, answer: Answer) -> Iterable[str]:
    does = "is declared" if answer["created"] else "is changed"
    return [f"bridge {answer['name']} {does}: {answer['source']} -> {answer['target']}"]


def _after(verb: str, given: Given, answer: Answer) -> Iterable[str]:
    return [f"{answer['component']} {answer['name']} is {verb}"]


_ABSENT: Final = Absent("bridge {name} does not exist", lambda given: {"bridge": given["name"], "existed": False})
BRIDGES: Final[tuple[Command, ...]] = (
    Command(
        "bridges declare", "bridge.declare",
        "Declare bridge NAME, which carries the messages of SOURCE to TARGET for as long as both brokers run.\n\n"
        "SOURCE and TARGET are URLs of connections with ?queue=NAME; a target may be ?exchange=NAME&key=KEY. A name "
        "without :// is a queue of this broker. It runs at once, with your rights, and goes on after a restart. For "
        "example: penstock bridges declare to-paris orders 'amqp://anna:secret@paris/?queue=orders'",
        (Field("name", metavar="NAME"), Field("source", metavar="SOURCE"), Field("target", metavar="TARGET"),
         Field("delivery", "exactly-once needs Penstock at both ends; auto takes it where both ends can.",
               choices=DELIVERIES),
         Field("prefetch", "Have at most N messages on their way.", whole(1, 65_535), metavar="N"),
         Field("selector", "Carry messages that this selector matches.", metavar="SELECTOR"),
         Field("forward-headers", "Add the source to the header x-received-from of each message.", bool),
         Field("max-hops", "Do not carry messages that came through N bridges.", whole(1, 64), metavar="N"),
         Field("reconnect-delay", "Wait S seconds before a lost end is tried again.", Number("s", most=86_400,
               whole=False), metavar="S"),
         Field("delete-after", "Delete the bridge after N messages.", whole(1), metavar="N")),
        _declared,
    ),
    Command(
        "bridges show", "bridge.show",
        "Show bridge NAME: state, what it has moved, what holds it, and its definition.\n\nURLs have users and "
        "passwords for administrators alone. For example: penstock bridges show to-paris",
        (_NAME, _COMPONENT), _shown,
    ),
    Command(
        "bridges pause", "bridge.pause",
        "Pause bridge NAME: messages on their way are settled or return, and no more are taken.\n\nIt stays paused "
        "over restarts. For example: penstock bridges pause to-paris",
        (_NAME, _COMPONENT), lambda given, answer: _after("paused", given, answer),
    ),
    Command(
        "bridges resume", "bridge.resume",
        "Run bridge NAME with your rights, such as a bridge that a definitions file brought.\n\n"
        "For example: penstock bridges resume to-paris",
        (_NAME, _COMPONENT),
        lambda given, answer: _after(f"resumed, with the rights of {answer['user']}", given, answer),
    ),
    Command(
        "bridges restart", "bridge.restart",
        "End the connections of bridge NAME and begin anew.\n\nFor example: penstock bridges restart to-paris",
        (_NAME, _COMPONENT), lambda given, answer: _after("restarted", given, answer),
    ),
    Command(
        "bridges delete", "bridge.delete",
        "Delete bridge NAME; messages on their way are settled or return to their source. Exit code 1: the bridge does "
        "not exist.\n\nFor example: penstock bridges delete to-paris",
        (_NAME, _COMPONENT), "bridge {name} is deleted",
        answer=lambda given, answer: {"bridge": given["name"], "deleted": True}, absent=_ABSENT,
    ),
)  # fmt: skip
