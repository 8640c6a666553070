"""Colours of the console: contrasts of all texts (WCAG 2.2, 1.4.3 and 1.4.11: AA)."""

from __future__ import annotations

import re

import pytest

from penstock.server.http.console.pages import FILES

TOKENS = FILES / "styles" / "tokens.css"
TEXT, GRAPHICS = 4.5, 3.0
"""Least contrasts of texts, and of lines."""
TEXTS = {
    "ink": ("surface", "ground", "sunken", "hover", "stop-soft", "warn-soft"),
    "ink-2": ("surface", "ground", "sunken", "hover"),
    "ink-3": ("surface", "ground", "sunken", "hover"),
    "water": ("surface", "ground", "sunken", "hover"),
    "out": ("surface", "ground"),
    "stop": ("surface", "ground", "hover", "stop-soft"),
    "warn": ("surface", "ground", "hover", "warn-soft"),
    "good": ("surface", "ground", "hover"),
    "surface": ("ink", "ink-2", "stop"),
}
"""Colours of texts, with the grounds on which they stand."""
LINES = {"edge": ("surface", "ground"), "warn-mark": ("surface", "sunken"), "focus": ("surface", "ground", "sunken")}


def colours(theme: str) -> dict[str, str]:
    """Return the colours of a theme by name."""
    rules = re.search(rf"^{re.escape(theme)} {{(.*?)^}}", TOKENS.read_text(), re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"--([\w-]+): (#\w{6})", rules[1]))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [":root", ":root.dark"])
def test_texts_and_lines_have_enough_contrast(theme: str) -> None:
    found = colours(theme)
    for pairs, least in ((TEXTS, TEXT), (LINES, GRAPHICS)):
        for colour, grounds in pairs.items():
            for ground in grounds:
                assert contrast(found[colour], found[ground]) >= least, f"{colour} on {ground}"


def test_styles_use_only_colours_of_both_themes() -> None:
    light, dark = colours(":root"), colours(":root.dark")
    assert set(light) == set(dark)
    styles = "".join(path.read_text() for path in (FILES / "styles").glob("*.css") if path != TOKENS)
    used = set(re.findall(r"var\(--([\w-]+)\)", styles))
    named = set(re.findall(r"--([\w-]+):", TOKENS.read_text()))
    assert used <= named
    assert re.findall(r"#[0-9a-f]{3,6}\b", re.sub(r"mask: [^;]*", "", styles)) == []
