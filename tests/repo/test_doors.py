"""Packages with a door: few modules outside know them, and only by the module that is their door."""

from __future__ import annotations

import pytest

from tests.repo.test_circles import imports

DOORS = {"penstock.ranges": ("penstock.ranges.service", 3)}
"""Door of a package, and the number of modules outside that may import it."""


def importers(package: str) -> dict[str, set[str]]:
    """Return what each module outside a package imports of it, for typing or at run time."""
    inside = f"{package}."
    return {
        name: found
        for name, targets in imports().items()
        if name != package and not name.startswith(inside)
        if (found := {target for target in targets if target == package or target.startswith(inside)})
    }


@pytest.mark.parametrize("package", DOORS)
def test_package_is_known_outside_to_few_modules_and_by_its_door_alone(package: str) -> None:
    door, most = DOORS[package]
    found = importers(package)
    assert set().union(*found.values()) == {door}
    assert len(found) <= most
