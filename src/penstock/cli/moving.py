"""Command `messages move`: messages of a queue of one broker into a queue of another, which need not be Penstock.

A message is acknowledged at its broker after the other one has confirmed it, so none is lost: at least once. After an
interruption, some of the last messages may be in both queues. With `--all` the queues of the target, which is Penstock
then, take the messages of the queues of their names.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from penstock.cli.broker_move import BrokerMove
from penstock.cli.common import INTERRUPTED, control_session, print_result, say, say_json
from penstock.cli.messages import Shown
from penstock.cli.move_counts import MoveCounts
from penstock.cli.parameters import Json, Url, command, option
from penstock.cli.progress import Progress
from penstock.errors import ConfigError, PenstockError
from penstock.settings.kind import whole

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

STREAM: Final = "stream"
FROM: Final = "Move from the broker of this URL; default: the broker of --url."
TO: Final = "Move to the broker of this URL; default: the broker of --url."
ALL: Final = "Move the messages of each queue that both virtual hosts have; the target must be Penstock."


@command()
def move(
    source: Annotated[str | None, option("Take the messages of this queue.", "QUEUE", "--from", names="queues")],
    target: Annotated[str | None, option("Publish the messages to this queue; default: its name.", "QUEUE", "--to")],
    every: Annotated[bool, option(ALL, option="--all")],
    from_url: Annotated[str | None, option(FROM, "URL")],
    to_url: Annotated[str | None, option(TO, "URL")],
    count: Annotated[int | None, option("Move at most N messages.", "N", "-n --count", kind=whole(1))],
    filter: Annotated[str, option("Move messages that this selector matches.", "SELECTOR", default="")],
    as_json: Json,
    progress: Shown,
    url: Url,
) -> None:
    """Move messages of a queue of one broker into a queue of another; either may be RabbitMQ or Artemis.

    Properties and headers are kept. A message leaves its queue after the other broker has confirmed it; if the command
    is interrupted, some of the last messages may be in both. Within one broker `penstock queues move` is exact. Exit
    code 1: a message was refused. For example: penstock messages move --from orders
    --from-url amqp://guest:guest@old-broker/, or penstock messages move --all --from-url amqp://guest:guest@old-broker/
    """
    first, second = from_url or url, to_url or url
    if every and (source or target or count):
        raise ConfigError("--all moves all messages of all queues: leave out --from, --to and --count")
    if not every and not source:
        raise ConfigError("name a queue by --from, or move all queues by --all")
    if first == second and (every or source == (target or source)):
        raise ConfigError(f"queue '{source or 'each'}' cannot be moved onto itself")
    counts, ended = MoveCounts(), ""
    shown = Progress(progress)
    try:
        with control_session(first) as old, control_session(second) as new:
            user = urlsplit(second).username or "guest"
            if source:
                BrokerMove(old, new, source, target or source, filter, user, counts, shown).run(count)
            else:
                _move_all(old, new, filter, user, counts, shown)
    except KeyboardInterrupt:
        shown.end()
        say(f"penstock: interrupted: {counts.sentences()}", err=True)
        if as_json:
            say_json({**counts.answer(), "error": "interrupted"})
        sys.exit(INTERRUPTED)
    except PenstockError as error:
        if not counts.moved and not counts.doubtful:
            raise
        ended = str(error)
    shown.end()
    sentence = f"{counts.sentences()}{f'; {ended}' if ended else ''}"
    print_result(as_json, {**counts.answer(), "error": ended or None}, sentence)
    if ended or counts.refused:
        sys.exit(1)


def _move_all(old: Connection, new: Connection, filter: str, user: str, counts: MoveCounts, shown: Progress) -> None:
    """Move the messages of all queues that both brokers have, but for streams and exclusive queues."""
    from penstock.client.errors import ChannelClosed, ControlError, LinkClosed

    queues = [each for each in new.list("queues") if not each["exclusive"]]
    counts.streams = [str(each["name"]) for each in queues if each["type"] == STREAM]
    for name in [str(each["name"]) for each in queues if each["type"] != STREAM]:
        try:
            moving = BrokerMove(old, new, name, name, filter, user, counts, shown)
        except (ChannelClosed, ControlError, LinkClosed):
            counts.absent.append(name)
        else:
            moving.run(None)
