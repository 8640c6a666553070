"""Shards of a node: their states, and the restart of shards one after another.

The restart is a job of the node. Each shard serves again before the next one is restarted. A shard that does not come
back ends the restart, and the shards behind it are left alone.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, MONITORING
from penstock.connections.control_request import ControlRequest, check_fields
from penstock.describe.table import Row
from penstock.errors import BrokerError, Cancelled, NotFound, PreconditionFailed
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from penstock.management.cluster import CANCELLED, DONE, FAILED, RUNNING, ClusterView, RollingRestart, required
from penstock.management.jobs import SHARD, Subject
from penstock.management.node import Node
from penstock.management.operation import DETACH, NODE, Operation, Route, looking
from penstock.texts import enumerated

RESTART: Final = "cluster.restart"
UNIT: Final = "shards"
FIELDS: Final[tuple[str, ...]] = ("shards",)


def status(node: Node, request: ControlRequest) -> Row:
    """Answer all shards with their states, and the last restart. Raises PreconditionFailed (406) without shards."""
    view = required(node.cluster)
    restart = view.restart
    return {
        "node": node.name,
        "version": node.version,
        "build": node.control.build,
        "newer": view.newer_software() or None,
        "shards": [*view.rows()],
        "restart": None if restart is None else restart.row(node.broker.wall_offset),
    }


def restart_steps(node: Node, request: ControlRequest) -> Steps[Row]:
    """Restart shards one after another, all or those that `shards` names, in the order of the node.

    Raises PreconditionFailed (406) for a shard that does not come back, Cancelled (406).
    """
    view = required(node.cluster)
    names = _asked(view, request)
    progress = request.progress
    restart = RollingRestart(names, request.access.user, node.broker.now)
    view.restart = restart
    progress.count_all(len(names), UNIT)
    try:
        for name in names:
            yield from _restart_one(view, progress, name)
            restart.done += 1
            restart.reason = ""
            progress.done += 1
    except Cancelled as cancelled:
        restart.end(CANCELLED, node.broker.now, _left(str(cancelled), restart))
        raise
    except BrokerError as refusal:
        restart.end(FAILED, node.broker.now, _left(str(refusal), restart))
        raise PreconditionFailed(restart.reason) from None
    finally:
        view.wake = None
        if restart.state == RUNNING and restart.done < len(names):
            restart.end(FAILED, node.broker.now, "an internal error; the log has more")
    restart.end(DONE, node.broker.now, view.newer_software())
    return {"restarted": names, "newer": view.newer_software() or None}


def _restart_one(view: ClusterView, progress: WorkProgress, name: str) -> Steps[None]:
    """Restart a shard, and wait until it serves again."""
    progress.check()
    view.wake = progress.go_on
    view.begin_restart(name)
    while True:
        obstacle = view.obstacle(name)
        if not obstacle:
            return
        assert view.restart is not None
        view.restart.reason = obstacle
        progress.hold(obstacle)
        yield
        progress.check()


def _left(reason: str, restart: RollingRestart) -> str:
    """Return the reason of an end, with the shards that were not restarted."""
    left = restart.shards[restart.done + 1 :]
    if not left:
        return reason
    return f"{reason}; {_named(left)} {'was' if len(left) == 1 else 'were'} not restarted"


def _named(names: list[str]) -> str:
    return f"{'shard' if len(names) == 1 else 'shards'} {enumerated(names)}"


def _asked(view: ClusterView, request: ControlRequest) -> list[str]:
    """Return the shards of a request, in the order of the node. Raises NotFound (404), PreconditionFailed (406)."""
    check_fields(RESTART, (*FIELDS, DETACH), request.fields)  # Over HTTP too: a misspelt one would restart all.
    names = view.names()
    if request.fields.get("shards") is None:
        return names
    asked = request.names("shards")
    for name in asked:
        if name not in names:
            raise NotFound(f"no shard '{name}': this node has {_named(names)}")
    return [name for name in names if name in asked]


def _subjects(node: Node, request: ControlRequest) -> tuple[Subject, ...]:
    """Return the shards that a restart is about. Raises PreconditionFailed (406) while another restart goes on."""
    view = required(node.cluster)
    names = _asked(view, request)
    present = view.restart
    if any(job.kind == RESTART for job in node.jobs.unfinished.values()):
        words = "one has just been asked for" if present is None or present.state != RUNNING else present.words()
        raise PreconditionFailed(f"shards are restarted by one request at a time: {words}")
    return (Subject(SHARD, "" if len(names) == len(view.names()) else ", ".join(names)),)


def _as_given(fields: Row) -> Row:
    """Return all fields of a body, so that a misspelt one is refused."""
    return fields


def _before(node: Node, request: ControlRequest) -> Row:
    return {"shards": _asked(required(node.cluster), request)}


SHARDS: Final = "/penstock/cluster"
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("cluster.status", status, tag=MONITORING, asks=NODE, routes=(
        Route(f"GET {SHARDS}", "List the shards of this node: state, process, virtual hosts, restarts, the last cause "
              "of an end; and the last restart."),
    )),
    Operation(RESTART, restart_steps, FIELDS, tag=ADMINISTRATOR, before=_before, job=_subjects,
              asks=NODE, routes=(
        Route(f"POST {SHARDS}/restart", "Restart shards one after another, all or those in `shards`: each serves "
              "again before the next one stops.", read=_as_given),
    )),
)  # fmt: skip
