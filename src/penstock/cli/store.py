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
    from penstock.server.store_open import CheckReport
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
    does not contain the settings file and the flow log. For example: penstock store backup /backup/monday
    """
    from penstock.store.backup import copy
    from penstock.store.sqlite import FILE

    _refuse_database(
        data, store, "backed up with pg_dump, which may run while brokers use it: pg_dump --schema={schema} "
        "--format=custom --file=FILE URL",
    )  # fmt: skip
    octets = copy(_directory(data) / FILE, target, _progress("copied"))
    print_result(as_json, {"backup": str(target), "bytes": octets}, f"backed up to {target}: {octets:,} bytes")


@command()
def check(data: Data, store: Annotated[str | None, option(DATABASE, "URL")], as_json: Json) -> None:
    """Read everything in the data directory or database of a stopped broker, and report damage.

    Nothing is changed. Exit code 0: no damage; 1: damage. `penstock store repair` saves the rest of a damaged data
    directory. For example: penstock store check --data /var/lib/penstock
    """
    from penstock.persistence.settlements import summed_up

    _check_one(data, store)
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
    from penstock.persistence.settlements import summed_up
    from penstock.server.store_open import repair_directory

    _refuse_database(data, store, "restored from a backup with pg_restore: pg_restore --dbname=URL FILE")
    saved, messages, losses, declared = repair_directory(_directory(data), target)
    _report(saved.lost, losses)
    for queue in declared:
        say(f"{queue} had lost its declaration and was declared again without its arguments", err=True)
    answer: dict[str, object] = {
        "saved": str(target),
        "messages": int(messages),
        "declarations": int(saved.metadata),
        "lost": len(saved.lost),
        "declared_again": [str(queue) for queue in declared],
    }
    print_result(
        as_json,
        answer,
        f"saved in {target}: {counted(messages, 'message')}, {counted(saved.metadata, 'declaration')}; "
        f"lost: {counted(len(saved.lost), 'record')}, {summed_up(losses)}",
    )


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


def _progress(what: str) -> Callable[[int, int], None]:
    """Return a progress callback that reports on standard error if that is a terminal."""
    terminal = sys.stderr.isatty()

    def report(left: int, pages: int) -> None:
        if terminal and pages:
            click.echo(f"\r{what} {100 * (pages - left) // pages} %" + ("" if left else "\n"), nl=False, err=True)

    return report
