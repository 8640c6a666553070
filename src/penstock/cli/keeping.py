"""`penstock backup`, `penstock check`, `penstock repair`: what is in a data directory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.asking import counted, main, one_sentence
from penstock.errors import StoreError

if TYPE_CHECKING:
    from penstock.store.store import Damage

LISTED = 20
"""Damages that are told one by one; the rest is counted."""

DATA = click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The broker's data directory; default: this user's, as of `penstock serve`.",
)
TARGET = click.argument("target", metavar="DIR", type=click.Path(path_type=Path))


@main.command()
@TARGET
@DATA
def backup(target: Path, data: Path | None) -> None:
    """Copy what a broker keeps into the folder DIR, which is made, or empty; the broker may run meanwhile.

    The copy is the state of one moment and a data directory of its own: `penstock serve --data DIR` starts from it.
    Flow-control settings of the settings file and the flow log are not in it.
    """
    from penstock.store.backup import copy
    from penstock.store.sqlite import FILE

    with one_sentence():
        copy(_directory(data) / FILE, target, _progress("copied"))
        click.echo(f"backed up to {target}: {(target / FILE).stat().st_size:,} bytes")


@main.command()
@DATA
def check(data: Path | None) -> None:
    """Read everything in a data directory that no broker is using, and say what is damaged; ends with 1 if anything is.

    Changes nothing that is kept. `penstock repair` saves the rest.
    """
    from penstock.store.directory import DataDirectory
    from penstock.store.sqlite import SqliteStore

    with one_sentence():
        directory = DataDirectory(_directory(data))
        directory.hold()
        store = SqliteStore(directory.path)
        try:
            store.open()
            damaged = store.check()
        finally:
            store.close()
            directory.unlock()
        if damaged:
            _tell(damaged)
            raise StoreError(
                f"{directory.path} is damaged in {counted(len(damaged), 'place')}; `penstock repair NEW --data "
                f"{directory.path}` saves the rest in a folder NEW"
            )
        click.echo(f"{directory.path} is in order")


@main.command()
@TARGET
@DATA
def repair(target: Path, data: Path | None) -> None:
    """Save what can be read of a damaged data directory into the folder DIR, which is made, or empty.

    Nothing is changed in the damaged one. Ends with 0 when something could be saved, and says what could not.
    """
    from penstock.store.repair import repair as save

    with one_sentence():
        saved = save(_directory(data), target)
        _tell(saved.lost)
        click.echo(
            f"saved in {target}: {counted(saved.rows, 'row')} of messages, {counted(saved.things, 'declaration')}; "
            f"lost: {counted(len(saved.lost), 'record')}"
        )


def _directory(data: Path | None) -> Path:
    from penstock.store.directory import default_directory

    return data or default_directory()


def _tell(damaged: list[Damage]) -> None:
    for each in damaged[:LISTED]:
        of = f" ({counted(each.messages, 'message')})" if each.messages else ""
        click.echo(f"{each.what}{of}: {each.why}", err=True)
    if len(damaged) > LISTED:
        click.echo(f"and {len(damaged) - LISTED:,} more", err=True)


def _progress(what: str) -> Callable[[int, int], None]:
    """Return who tells on standard error, where that is a terminal, how far something has come."""
    terminal = sys.stderr.isatty()

    def told(left: int, pages: int) -> None:
        if terminal and pages:
            click.echo(f"\r{what} {100 * (pages - left) // pages} %" + ("" if left else "\n"), nl=False, err=True)

    return told
