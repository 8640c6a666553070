"""Commands for a data directory or database: backup, check and repair."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from penstock.cli.common import print_result, say, say_json
from penstock.cli.parameters import Json, command, option
from penstock.errors import ConfigError, StoreError
from penstock.texts import counted

if TYPE_CHECKING:
    from penstock.persistence.settlements import Loss
    from penstock.server.store_open import CheckReport, RepairReport
    from penstock.store.records import Damage

LISTED = 20
"""Most queues, and most damaged records, that are listed; further ones are counted."""

FOLDER = "Use the broker's data directory DIR; default: this user's, as for `penstock serve`."
DATABASE = "Use the broker's database URL, as for `penstock serve --store`."
Data = Annotated[Path | None, option(FOLDER, "DIR")]
Advice = Annotated[str | None, option("Tell how PostgreSQL does it for the database URL.", "URL")]
Target = Annotated[Path, option(metavar="DIR")]


@command()
def backup(target: Target, data: Data, store: Advice, as_json: Json) -> None:
    """Copy a broker's store into DIR, which is new or empty; the broker may keep running.

    The copy is a consistent snapshot and a data directory of its own: `penstock serve --data DIR` starts from it. It
    does not contain the settings file and the flow log. Of a broker with shards, each shard's copy is a snapshot of its
    own moment.

    For example: penstock store backup /backup/monday
    """
    from penstock.cluster.node_store import backup_node
    from penstock.store.backup import copy
    from penstock.store.node_folder import is_node
    from penstock.store.sqlite import FILE

    _refuse_database(
        data, store, "backed up with pg_dump, which may run while brokers use it: pg_dump --schema={schema} "
        "--format=custom --file=FILE URL",
    )  # fmt: skip
    source = _directory(data)
    if is_node(source):
        copied = backup_node(source, target, _progress_of_shards("copied"))
        octets = sum(copied.values())
        answer = {"backup": str(target), "bytes": octets, "shards": copied}
        shards = counted(len(copied), "shard")
        print_result(as_json, answer, f"backed up to {target}: {octets:,} bytes of {shards}, and the catalogue")
        return
    octets = copy(source / FILE, target, _progress("copied"))
    print_result(as_json, {"backup": str(target), "bytes": octets}, f"backed up to {target}: {octets:,} bytes")


@command()
def check(data: Data, store: Annotated[str | None, option(DATABASE, "URL")], as_json: Json) -> None:
    """Read everything in the data directory or database of a stopped broker, and report damage.

    Nothing is changed. Exit code 0: no damage; 1: damage. `penstock store repair` saves the rest of a damaged data
    directory. For example: penstock store check --data /var/lib/penstock
    """
    from penstock.persistence.settlements import summed_up
    from penstock.store.node_folder import is_node

    _check_one(data, store)
    if store is None and is_node(_directory(data)):
        _check_node(_directory(data), as_json)
        return
    place, found, advice = _look_in_folder(_directory(data)) if store is None else _look_in_database(store)
    if as_json:
        damaged = [{"what": each.what, "why": each.why, "messages": each.messages} for each in found.damaged]
        say_json({"store": place, "damaged": damaged, "losses": [str(loss) for loss in found.losses]})
        if damaged:
            sys.exit(1)
        return
    if found.damaged:
        _report(found.damaged, found.losses)
        places = counted(len(found.damaged), "place")
        raise StoreError(f"{place} is damaged in {places}: {summed_up(found.losses)}; {advice}")
    say(f"{place} is in order")


@command()
def repair(target: Target, data: Data, store: Advice, as_json: Json) -> None:
    """Copy everything readable from a damaged data directory into DIR, which is new or empty.

    The damaged directory is not changed. Exit code 0: something was saved; losses are reported. A queue with messages
    but without a declaration is restored without its arguments.

    For example: penstock store repair /data/new --data /data/old
    """
    from penstock.server.store_open import repair_directory
    from penstock.store.node_folder import is_node

    _refuse_database(data, store, "restored from a backup with pg_restore: pg_restore --dbname=URL FILE")
    if is_node(_directory(data)):
        _repair_node(_directory(data), target, as_json)
        return
    done = repair_directory(_directory(data), target)
    _report_repair(done)
    print_result(as_json, {"saved": str(target), **_repaired(done)}, f"saved in {target}: {_summed_repair(done)}")


def _report_repair(done: RepairReport) -> None:
    """Report what a repair has lost, and the queues that were declared again."""
    _report(done.saved.lost, done.losses)
    for queue in done.declared:
        say(f"{queue} had lost its declaration and was declared again without its arguments", err=True)


def _repaired(done: RepairReport) -> dict[str, object]:
    """Return the figures of a repair, for JSON."""
    return {
        "messages": int(done.messages),
        "declarations": int(done.saved.metadata),
        "lost": len(done.saved.lost),
        "declared_again": [str(queue) for queue in done.declared],
    }


def _summed_repair(done: RepairReport) -> str:
    """Return the figures of a repair, for people."""
    from penstock.persistence.settlements import summed_up

    saved = f"{counted(done.messages, 'message')}, {counted(done.saved.metadata, 'declaration')}"
    return f"{saved}; lost: {counted(len(done.saved.lost), 'record')}, {summed_up(done.losses)}"


# Nodes


def _check_node(data: Path, as_json: bool) -> None:
    """Check the catalogue and each shard, and report damage by shard. Raises StoreError for damage."""
    from penstock.cluster.node_store import check_node
    from penstock.persistence.settlements import summed_up

    checks, of_catalogue = check_node(data)
    losses = [loss for each in checks for loss in each.found.losses]
    damaged = [(each.folder.name, damage) for each in checks for damage in each.found.damaged]
    damaged += [("", damage) for damage in of_catalogue]
    if as_json:
        rows = [{"shard": name, "what": it.what, "why": it.why, "messages": it.messages} for name, it in damaged]
        say_json({"store": str(data), "damaged": rows, "losses": [str(loss) for loss in losses]})
        if damaged:
            sys.exit(1)
        return
    for each in checks:
        if each.found.damaged:
            say(f"shard {each.folder.name} ({each.folder.path}):", err=True)
            _report(each.found.damaged, each.found.losses)
    _report(of_catalogue, [])
    if damaged:
        raise StoreError(
            f"{data} is damaged in {counted(len(damaged), 'place')}: {summed_up(losses)}; "
            f"`penstock store repair NEW --data {data}` saves the rest in a new folder NEW"
        )
    say(f"{data} is in order: {counted(len(checks), 'shard')} and the catalogue")


def _repair_node(data: Path, target: Path, as_json: bool) -> None:
    """Repair each shard, and report losses by shard."""
    from penstock.cluster.node_store import repair_node

    answers: list[dict[str, object]] = []
    lines: list[str] = []
    for folder, done in repair_node(data, target):
        if done is None:
            answers.append({"shard": folder.name, "lost": None})
            lines.append(f"shard {folder.name}: lost whole: {folder.path} has no store")
            continue
        _report_repair(done)
        answers.append({"shard": folder.name, **_repaired(done)})
        lines.append(f"shard {folder.name}: {_summed_repair(done)}")
    title = f"saved in {target}: {counted(len(lines), 'shard')} and the catalogue"
    print_result(as_json, {"saved": str(target), "shards": answers}, title, *lines)


def _directory(data: Path | None) -> Path:
    from penstock.store.directory import default_directory

    return data or default_directory()


def _check_one(data: Path | None, store: str | None) -> None:
    if data is not None and store is not None:
        raise click.UsageError("--data and --store exclude each other: give the directory or the database")


def _refuse_database(data: Path | None, store: str | None, way: str) -> None:
    """Report PostgreSQL's own tool for a command on a database. Raises ConfigError, also for an invalid URL."""
    from penstock.server.store_open import database_of

    _check_one(data, store)
    if store is not None:
        found = database_of(store)
        raise ConfigError(f"the store in {found} is {way.format(schema=found.address.schema)} (docs/postgres.md)")


def _look_in_folder(path: Path) -> tuple[str, CheckReport, str]:
    from penstock.server.store_open import check_directory

    rest = f"`penstock store repair NEW --data {path}` saves the rest in a new folder NEW"
    return str(path), check_directory(path), rest


def _look_in_database(url: str) -> tuple[str, CheckReport, str]:
    from penstock.server.store_open import check_store, database_of

    store = database_of(url, makes=False)
    return str(store), check_store(store), store.when_damaged


def _report(damaged: list[Damage], losses: list[Loss]) -> None:
    """Report losses by queue, then the damaged records."""
    for loss in losses[:LISTED]:
        say(str(loss), err=True)
    if len(losses) > LISTED:
        say(f"and {len(losses) - LISTED:,} more queues", err=True)
    for each in damaged[:LISTED]:
        of = f" ({counted(each.messages, 'message')})" if each.messages else ""
        say(f"{each.what}{of}: {each.why}", err=True)
    if len(damaged) > LISTED:
        say(f"and {len(damaged) - LISTED:,} more", err=True)


def _progress_of_shards(what: str) -> Callable[[str, int, int], None]:
    """Return a progress callback for several shards."""
    return lambda shard, left, pages: _progress(f"shard {shard}: {what}")(left, pages)


def _progress(what: str) -> Callable[[int, int], None]:
    """Return a progress callback that reports on standard error if that is a terminal."""
    terminal = sys.stderr.isatty()

    def report(left: int, pages: int) -> None:
        if terminal and pages:
            click.echo(f"\r{what} {100 * (pages - left) // pages} %" + ("" if left else "\n"), nl=False, err=True)

    return report
