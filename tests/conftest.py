"""What every test run has in common: which form of Penstock is meant, and Hypothesis's settings."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

import penstock

FORMS = ("interpreted", "compiled")
SOURCES = Path(__file__).resolve().parent.parent / "src"

# Shared machines are slow at times; a deadline per example would fail for that alone.
settings.register_profile("penstock", deadline=None, print_blob=True)
settings.load_profile("penstock")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--expect",
        choices=FORMS,
        default=os.environ.get("PENSTOCK_EXPECT"),
        help="fail at once unless Penstock runs in this form (also: PENSTOCK_EXPECT)",
    )


def pytest_configure(config: pytest.Config) -> None:
    expected = config.getoption("--expect")
    found = "compiled" if penstock.compiled() else "interpreted"
    if expected is not None and expected != found:
        raise pytest.UsageError(f"these tests were to run {expected}, but {penstock.__file__} is {found}")


def pytest_report_header() -> str:
    form = "compiled" if penstock.compiled() else "interpreted"
    return f"penstock: {form}, from {Path(penstock.__file__).parent}"
