"""Commands `cluster status` and `cluster restart`: the shards of a node."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any, Final

from penstock.cli.common import asked, control_session, print_result, say, say_json
from penstock.cli.parameters import Json, Url, command, option
from penstock.cli.progress import Progress
from penstock.cli.tables import Colour, table
from penstock.errors import PenstockError
from penstock.operations.command_jobs import DETACH
from penstock.texts import brief_age, counted

STATUS: Final = "cluster.status"
RESTART: Final = "cluster.restart"
SERVING: Final = "serving"
LOOK_S: Final = 0.2
"""Seconds between two looks at a restart."""
LOST_S: Final = 30.0
"""Longest time without an answer of the node: the restart may close the connection that asks."""
COLOURS: Final[dict[str, Colour]] = {"state": lambda text: "good" if text == SERVING else "alarm"}
RUNNING: Final = "running"
INTERNAL_ERROR: Final = 541
SHOWN_VHOSTS: Final = 2
Row = dict[str, Any]


@command()
def status(as_json: Json, url: Url) -> None:
    """Print the shards of the node: state, virtual hosts, process, restarts, and why a shard is away.

    Exit code 1: a shard does not serve. For example: penstock cluster status
    """
    found = asked(url, STATUS)
    if as_json:
        say_json(found, indent=2)
    else:
        heads = ("shard", "state", "for", "vhosts", "process", "restarts")
        table(heads, [_cells(each) for each in found["shards"]], COLOURS)
        for each in found["shards"]:
            if each["state"] != SERVING:
                say(each["sentence"])
            elif each["cause"]:
                say(f"shard '{each['shard']}': the last process to die {each['cause']}")
        if found["restart"] is not None:
            say(found["restart"]["sentence"])
        if found["newer"]:
            say(found["newer"])
    if any(each["state"] != SERVING for each in found["shards"]):
        sys.exit(1)


def _cells(shard: Row) -> tuple[str, ...]:
    vhosts = shard["vhosts"]
    more = len(vhosts) - SHOWN_VHOSTS
    named = ", ".join(vhosts[:SHOWN_VHOSTS]) + (f" and {more:,} more" if more > 0 else "")
    process = str(shard["pid"] or "-")
    return shard["shard"], shard["state"], brief_age(shard["for_s"]), named or "-", process, f"{shard['starts'] - 1:,}"


@command()
def restart(
    shards: Annotated[tuple[str, ...], option(metavar="[SHARD]...", required=False)],
    detach: Annotated[bool, DETACH],
    as_json: Json,
    url: Url,
) -> None:
    """Restart shards one after another, all or those that are named: each serves again before the next one stops.

    Confirmed messages stay. Clients of a shard are closed with 320, and their next login waits until it serves. A shard
    that does not come back ends the restart. Exit code 1: the restart has failed. For example: penstock cluster
    restart, or penstock cluster restart 2
    """
    before = _began_before(url)
    fields: Row = {"detach": True, **({"shards": list(shards)} if shards else {})}
    job = _begun(url, fields)
    if detach:
        begun = _awaited(url, before) if job is None else job
        print_result(as_json, begun, "the restart has begun; `penstock cluster status` shows its progress")
        return
    progress = Progress(False)
    try:
        found = _awaited(url, before, progress)
    except KeyboardInterrupt:
        progress.end()
        say("penstock: interrupted: the restart goes on; `penstock cluster status` shows its progress", err=True)
        raise
    finally:
        progress.end()
    is_done = found["state"] == "done"
    more = f"; {found['reason']}" if found["reason"] else ""
    print_result(
        as_json, found, f"{counted(len(found['done']), 'shard')} restarted{more}" if is_done else found["sentence"]
    )
    if not is_done:
        sys.exit(1)


def _began_before(url: str) -> int | None:
    """Return the time at which the last restart began; None without one, or if the broker does not say.

    Then the request to restart tells why, beginning with the rights of the user.
    """
    from penstock.client.errors import ControlError

    try:
        last = asked(url, STATUS)["restart"]
    except ControlError:
        return None
    return None if last is None else last["began_at"]


def _begun(url: str, fields: Row) -> Row | None:
    """Ask for a restart; return its job, or None if its answer is lost.

    The shard of this connection may be the first to stop, before it has passed the answer on.
    """
    from penstock.client.engine.outcomes import ConnectionLost
    from penstock.client.errors import ConnectionClosed, ControlError

    try:
        with control_session(url, reconnect=False) as control:
            found: Row = control.request(RESTART, **fields)
            return found
    except ControlError as refusal:
        if refusal.code != INTERNAL_ERROR:
            raise
    except (ConnectionClosed, ConnectionLost):
        pass
    return None


def _awaited(url: str, before: int | None, progress: Progress | None = None) -> Row:
    """Wait for the end of the restart that began after `before`; return it. Without `progress` wait for its beginning.

    Raises PenstockError if the node does not answer for too long, or has begun no restart.
    """
    heard = time.monotonic()
    while True:
        try:
            found: Row | None = asked(url, STATUS)["restart"]
        except (PenstockError, OSError):
            if time.monotonic() - heard >= LOST_S:
                raise
            time.sleep(LOOK_S)
            continue
        if found is not None and found["began_at"] != before:
            heard = time.monotonic()
            if progress is None or found["state"] != RUNNING:
                return found
            progress.show(_progress_words(found))
        elif time.monotonic() - heard >= LOST_S:
            raise PenstockError("the node has not begun the restart; `penstock cluster status` shows its shards")
        time.sleep(LOOK_S)


def _progress_words(restart: Row) -> str:
    done, left = len(restart["done"]), len(restart["left"])
    words = f"{done:,} of {done + left:,} shards restarted"
    return f"{words}; {restart['reason']}" if restart["reason"] else words
