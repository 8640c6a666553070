"""The navigation of the site: pages for users, and the part for people who doubt or change the broker."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.site_hooks import INSIDE

ROOT = Path(__file__).resolve().parents[2]
LISTED = re.compile(r"^ +- (?:[^#\n]+: )?(\S+\.md)\b", re.MULTILINE)
"""A page in `nav` of mkdocs.yml."""


def listed_pages() -> list[str]:
    """Return all pages of the navigation, but for the decisions that a hook adds."""
    return LISTED.findall(_navigation())


def pages_of_users() -> list[str]:
    """Return the pages outside of the part for people who doubt or change the broker."""
    before, part, _ = _navigation().partition(f"\n  - {INSIDE}:")
    assert part, f"mkdocs.yml has no part {INSIDE}"
    return LISTED.findall(before)


def _navigation() -> str:
    return (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
