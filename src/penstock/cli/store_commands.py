"""`penstock backup`, `penstock check`, `penstock repair`: what is in a data directory, or a database."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.common import counted, main, report_errors, say
from penstock.errors import StoreError

if TYPE_CHECKING:
    from penstock.persistence.message_audit import Loss
    from penstock.server.store_repair import CheckReport
    from penstock.store.store import Damage, Store

LISTED = 20
"""Queues, and damages, that are told one by one; the rest is counted."""

DATA = click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The broker's data directory; default: this user's, as of `penstock serve`.",
)
STORE = click.option("--store", metavar="URL", help="The broker's database, as of `penstock serve --store`.")
TARGET = click.argument("target", metavar="DIR", type=click.Path(path_type=Path))


@main.command()
@TARGET
@DATA
@STORE
def backup(target: Path, data: Path | None, store: str | None) -> None:
    """Copy what a broker keeps into the folder DIR, which is made, or empty; the broker may run meanwhile.

    The copy is the state of one moment and a data directory of its own: `penstock serve --data DIR` starts from it.
    Flow-control settings of the settings file and the flow log are not in it.
    """
    from penstock.store.backup import copy
    from penstock.store.sqlite import FILE

    with report_errors():
        _refuse_database(store, "backed up with pg_dump, which may run while brokers use it")
        copy(_directory(data) / FILE, target, _progress("copied"))
        say(f"backed up to {target}: {(target / FILE).stat().st_size:,} bytes")


@main.command()
@DATA
@STORE
def check(data: Path | None, store: str | None) -> None:
    """Read everything in a data directory, or database, that no broker is using; say what is damaged, and end with 1.

    Changes nothing that is kept; ends with 0 if all is in order. Of a data directory `penstock repair` saves the rest.
    """
    from penstock.persistence.message_audit import summed_up

    if data is not None and store is not None:
        raise click.UsageError("--data and --store say what is checked: give one of them")
    with report_errors():
        place, found, advice = _look_in_folder(_directory(data)) if store is None else _look_in_database(store)
        if found.damaged:
            _tell(found.damaged, found.losses)
            places = counted(len(found.damaged), "place")
            raise StoreError(f"{place} is damaged in {places}: {summed_up(found.losses)}; {advice}")
        say(f"{place} is in order")


@main.command()
@TARGET
@DATA
@STORE
def repair(target: Path, data: Path | None, store: str | None) -> None:
    """Save what can be read of a damaged data directory into the folder DIR, which is made, or empty.

    Nothing is changed in the damaged one. Ends with 0 when something could be saved, and says what could not. A queue
    of which there are messages and no declaration comes back without its arguments.
    """
    from penstock.persistence.message_audit import summed_up
    from penstock.server.store_repair import repair_directory

    with report_errors():
        _refuse_database(store, "restored from a backup with pg_restore")
        saved, messages, losses, declared = repair_directory(_directory(data), target)
        _tell(saved.lost, losses)
        for queue in declared:
            say(f"{queue} had lost its declaration, and is declared anew without its arguments", err=True)
        say(
            f"saved in {target}: {counted(messages, 'message')}, {counted(saved.metadata, 'declaration')}; "
            f"lost: {counted(len(saved.lost), 'record')}, {summed_up(losses)}"
        )


def _directory(data: Path | None) -> Path:
    from penstock.store.directory import default_directory

    return data or default_directory()


def _refuse_database(store: str | None, way: str) -> None:
    if store is not None:
        raise click.UsageError(f"a store in PostgreSQL is {way} (docs/postgres.md)")


def _look_in_folder(path: Path) -> tuple[str, CheckReport, str]:
    from penstock.server.store_repair import check_directory

    return str(path), check_directory(path), f"`penstock repair NEW --data {path}` saves the rest in a folder NEW"


def _look_in_database(url: str) -> tuple[str, CheckReport, str]:
    from penstock.server.store_repair import check_store
    from penstock.store.postgres import SCHEMES, postgres_store

    if not url.startswith(SCHEMES):
        raise click.UsageError("--store is a database of PostgreSQL, as postgresql://HOST/DATABASE; a folder is --data")
    store: Store = postgres_store(url, makes=False)
    return str(store), check_store(store), store.when_damaged


def _tell(damaged: list[Damage], losses: list[Loss]) -> None:
    """Tell all of it: first what it means, then where it is."""
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
    """Return who tells on standard error, where that is a terminal, how far something has come."""
    terminal = sys.stderr.isatty()

    def told(left: int, pages: int) -> None:
        if terminal and pages:
            click.echo(f"\r{what} {100 * (pages - left) // pages} %" + ("" if left else "\n"), nl=False, err=True)

    return told
