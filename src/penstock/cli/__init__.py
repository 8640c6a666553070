"""Command line: each module has the commands of one kind; the main group imports it when one of them is used."""

from penstock.cli.common import main

__all__ = ["main"]
