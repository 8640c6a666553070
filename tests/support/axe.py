"""axe-core in a page: rules of accessibility that a program can check. A package brings the script."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ALSO = ["label-content-name-mismatch"]
"""Rules that are off unless they are asked for."""
RUN = """async ([tags, also]) => {
  const rules = Object.fromEntries(also.map((rule) => [rule, {enabled: true}]));
  const found = await axe.run(document, {runOnly: {type: "tag", values: tags}, rules});
  const told = (rule, node) => `${rule.id}: ${node.target.join(" ")}: ${node.html.slice(0, 160)}`;
  return found.violations.flatMap((rule) => rule.nodes.map((node) => told(rule, node)));
}"""


def faults(page: Page) -> list[str]:
    """Return what axe-core finds in a page: rule, element and markup."""
    package = pytest.importorskip("axe_playwright_python")
    if not page.evaluate("'axe' in globalThis"):
        page.evaluate(files(package.__name__).joinpath("axe.min.js").read_text())
    found: list[str] = page.evaluate(RUN, [TAGS, ALSO])
    return found
