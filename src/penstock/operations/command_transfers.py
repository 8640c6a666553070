"""The table of commands that move, copy, redrive and delete messages, which conditions choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.errors import ConfigError
from penstock.operations.command import Answer, Command, Field, Given, Says
from penstock.operations.command_jobs import DETACH, job_started
from penstock.settings.kind import COUNT, whole
from penstock.texts import counted, rounded_bytes

CHOICE: Final[tuple[Field, ...]] = (
    Field("filter", "Take messages that this selector matches, such as \"kind = 'bill'\".", metavar="SELECTOR"),
    Field("key", "Take messages with this routing key; * stands for any text.", metavar="KEY"),
    Field("header", "Take messages with this header; may be repeated.", metavar="NAME=VALUE", many=True, read=list),
    Field("body", "Take messages with this text in their body.", metavar="TEXT"),
    Field("reason", "Take dead letters that died for this reason, such as rejected.", metavar="REASON"),
)
"""Options of conditions; messages that meet all of them are taken."""
RANGE_MOST: Final = 1_000
"""Most positions of one request."""


def positions(words: tuple[str, ...]) -> list[int] | None:
    """Return the positions in words such as 5,7 and 10-19; None without any. Raises ConfigError."""
    found: list[int] = []
    for part in ",".join(words).split(",") if words else ():
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or len(first) > 18 or (dash and (not last.isdecimal() or len(last) > 18)):
            raise ConfigError(f"--positions '{part}' is no position: write numbers and ranges, such as 5,7,10-19")
        begin, end = int(first), int(last or first)
        if begin < 1 or end < begin:
            raise ConfigError(f"--positions '{part}' is no range: positions begin with 1, and the lower one is first")
        if end - begin + len(found) >= RANGE_MOST:
            raise ConfigError(f"--positions has more than {RANGE_MOST:,} positions: take the others by another command")
        found += range(begin, end + 1)
    return found or None


_POSITIONS: Final = Field(
    "positions",
    "Take the messages at these positions of `messages browse`.",
    metavar="N,N-N",
    many=True,
    read=positions,
)
_COUNT: Final = Field("count", "Take at most N messages, the first ones.", whole(1), metavar="N")
_RATE: Final = Field("rate", "Pass at most N messages a second.", COUNT, metavar="N")
_SOURCE: Final = Field("queue", metavar="SOURCE", names="queues")
_INTO: Final = Field("target", metavar="[TARGET]", required=False, names="queues")
_TO: Final = Field("to", "Publish the messages to an exchange, instead of TARGET.", metavar="EXCHANGE/KEY")
_DRY_RUN: Final = Field(
    "dry_run", "Move nothing; print where the messages would go, and what would happen there.", bool
)
PREVIEW: Final = "queue.redrive-preview"


def _given(given: Given) -> Answer:
    """Return the fields that were given."""
    return {
        name: value
        for name, value in given.items()
        if value is not None and value is not False and value != [] and name != "dry_run"
    }


def _transferring(verb: str) -> Callable[[Given], tuple[str, Answer]]:
    def request(given: Given) -> tuple[str, Answer]:
        fields = _given(given)
        to = fields.pop("to", None)
        if to is not None:
            exchange, slash, key = str(to).partition("/")
            if not slash:
                raise ConfigError(f"--to '{to}' is not EXCHANGE/KEY; the key may be empty: {to}/")
            fields |= {"exchange": exchange, "routing_key": key}
        if given.get("dry_run"):
            if given["detach"]:
                raise ConfigError("--dry-run has no job: leave out --detach")
            fields.pop("rate", None)
            return PREVIEW, fields
        return f"queue.{verb}", fields

    return request


def transferred(participle: str) -> Says:
    """Return the function that describes the result of a transfer."""

    def sentences(given: Given, answer: Answer) -> Iterable[str]:
        if given.get("dry_run"):
            yield from previewed(answer)
            return
        if given["detach"]:
            yield job_started(answer)
            return
        to = "back into" if participle == "redriven" else "from queue '{queue}' to"
        where = f"{to.format(**answer)} {answer['target']}"
        yield f"{counted(answer[participle], 'message')} {participle} {where}"
        if answer["unmatched"]:
            yield f"{counted(answer['unmatched'], 'message')} not matched by the filter"
        yield from _missing(answer)
        for kind in answer["why"]:
            yield f"{counted(kind['messages'], 'message')} left in queue '{answer['queue']}': {kind['reason']}"

    return sentences


def previewed(answer: Answer) -> Iterable[str]:
    """Describe where a redrive would move messages, and what would happen there."""
    queue = answer["queue"]
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in answer["reasons"].items())
    died = f" ({reasons})" if reasons else ""
    yield f"{counted(answer['examined'], 'message')} of queue '{queue}' examined{died}; nothing is moved"
    for each in answer["targets"]:
        amount = f"{counted(each['messages'], 'message')}, {rounded_bytes(each['bytes'])}"
        yield f"to queue '{each['queue']}': {amount}: {each['text']}"
    if answer["others"]:
        yield f"to further queues: {counted(answer['others'], 'message')}"
    for kind in answer["left"]:
        yield f"{counted(kind['messages'], 'message')} would stay: {kind['reason']}"
    if answer["unmatched"]:
        yield f"{counted(answer['unmatched'], 'message')} not matched by the filter"
    if answer["unread"]:
        yield f"{counted(answer['unread'], 'message')} not examined: on the disk, or beyond the first ones"


def _missing(answer: Answer) -> Iterable[str]:
    if answer.get("missing"):
        yield f"{counted(answer['missing'], 'position')} without a ready message"


def _deleted(given: Given, answer: Answer) -> Iterable[str]:
    if given["detach"]:
        yield job_started(answer)
        return
    yield f"{counted(answer['deleted'], 'message')} of queue {answer['queue']} deleted"
    yield from _missing(answer)


def _transfer(verb: str, participle: str, text: str, *fields: Field) -> Command:
    return Command(
        f"queues {verb}", f"queue.{verb}", text, (_SOURCE, *fields, _COUNT, *CHOICE, _POSITIONS, _RATE, DETACH),
        transferred(participle), _transferring(verb),
    )  # fmt: skip


TRANSFERS: Final[tuple[Command, ...]] = (
    _transfer(
        "move",
        "moved",
        "Move messages of queue SOURCE into queue TARGET, in order, or to an exchange.\n\n"
        "A message leaves SOURCE when it is in TARGET. If TARGET is full, the move waits for room and drops nothing. "
        "Messages that arrive later stay. For example: penstock queues move failed orders --count 100",
        _INTO,
        _TO,
    ),
    _transfer(
        "copy",
        "copied",
        "Copy messages of queue SOURCE into queue TARGET, in order, or to an exchange.\n\n"
        "The messages stay in SOURCE. For example: penstock queues copy orders test --filter \"region = 'EU'\"",
        _INTO,
        _TO,
    ),
    _transfer(
        "redrive",
        "redriven",
        "Move dead letters of queue SOURCE back into the queues in which they died last.\n\n"
        "The header x-redrive-count counts the redrives of a message. Messages whose queue is gone stay. For example: "
        "penstock queues redrive failed --dry-run, or penstock queues redrive failed --reason rejected",
        Field("trust_headers", "Also take messages whose death headers another broker or a publisher wrote.", bool),
        Field("forget_deaths", "Remove x-death from the messages, so that their deaths are counted anew.", bool),
        _DRY_RUN,
    ),
    Command(
        "messages delete",
        "messages.delete",
        "Delete the ready messages of QUEUE that a condition chooses, without dead letters.\n\nFor example: penstock "
        "messages delete orders.dead --reason expired, or penstock messages delete orders --positions 5,7",
        (Field("queue", names="queues"), _COUNT, *CHOICE, _POSITIONS, DETACH),
        _deleted,
        lambda given: ("messages.delete", _given(given)),
    ),
)
