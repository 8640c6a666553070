"""docs/settings.md has every setting of a start, as the code has it: names, options, defaults and bounds."""

from __future__ import annotations

import json
import re
from pathlib import Path

from penstock.cli.serve import serve
from penstock.settings.config import Settings, load
from penstock.settings.kind import NAMED_MOST, Number
from penstock.settings.start import AT_START, RULES
from tests.support import settings_tables

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def rows(first_column: str) -> list[list[str]]:
    """Return the table whose first column is called so, without its head."""
    lines = DOCUMENT.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    found: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
    return found


def options_of_serve() -> set[str]:
    return {option for each in serve.params for option in each.opts if option.startswith("--")}


def test_start_up_settings_are_documented_with_their_defaults() -> None:
    documented = {row[0]: row[2] for row in rows("setting")}
    settings = Settings()
    values = {name.replace("_", "-"): getattr(settings, name) for name in AT_START}
    assert documented == {name: "none" if value is None else json.dumps(value) for name, value in values.items()}, (
        "in the order of the table nothing is missing, and nothing is there that the code does not have"
    )


def test_bounds_of_a_setting_are_documented() -> None:
    documented = {row[0]: row[3] for row in rows("setting") if row[3]}
    kinds = {name: rule.kind for name, rule in RULES.items()}
    bounded = {name: kind for name, kind in kinds.items() if isinstance(kind, Number) and kind.most < NAMED_MOST}
    assert documented == {name.replace("_", "-"): f"{kind.least}, {kind.most}" for name, kind in bounded.items()}


def test_options_of_serve_are_documented() -> None:
    of_settings = {row[1] for row in rows("setting") if row[1]}
    others = {row[0] for row in rows("option")}
    assert of_settings | others == options_of_serve()
    assert not of_settings & others
    settings = {row[0] for row in rows("setting")}
    assert {option.removeprefix("--") for option in of_settings} <= settings


def test_example_of_the_page_is_a_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(DOCUMENT.read_text().partition("```toml\n")[2].partition("```")[0])
    settings = load(file)
    assert settings.users is not None
    assert ([user.name for user in settings.users], settings.http) == (["ada"], "127.0.0.1:15672")
    assert [(scope, pattern) for scope, pattern, _ in settings.patterns] == [("queue", "orders.#")]


def test_variables_of_the_environment_differ_from_those_of_the_command_line() -> None:
    found = settings_tables.variables()
    assert len(set(found)) == len(found)
    assert not {"PENSTOCK_URL", "PENSTOCK_PROFILE", "PENSTOCK_PROFILES"} & set(found)
