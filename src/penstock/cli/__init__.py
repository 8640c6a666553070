"""Command line: a noun and a verb; `grammar` has the places of all commands."""

from penstock.cli.grammar import main

__all__ = ["main"]
