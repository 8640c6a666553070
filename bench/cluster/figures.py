"""Figures with their goals, and the table of them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure."""

    title: str
    text: str
    """The figure with its unit, and what it is compared with."""
    goal: str = ""
    """The goal in words; empty without one."""
    is_met: bool | None = None
    """None without a goal."""

    @classmethod
    def ratio(cls, title: str, ours: list[float], beside: list[float], unit: str, most: float) -> "Figure":
        """Return the ratio of two costs, each the least of several."""
        here, there = min(ours), min(beside)
        ratio = here / there if there else float("inf")
        text = f"{here:.2f} {unit} in a node, {there:.2f} alone: {ratio:.2f} times"
        return cls(title, text, f"<= {most:g} times", ratio <= most)

    @classmethod
    def gain(cls, title: str, ours: list[float], beside: list[float], least: float | None) -> "Figure":
        """Return the ratio of two speeds, each the best of several."""
        here, there = max(ours), max(beside)
        ratio = here / there if there else float("inf")
        text = f"{here:,.0f} messages a second in a node, {there:,.0f} alone: {ratio:.2f} times"
        return cls(
            title, text, "" if least is None else f">= {least:g} times", None if least is None else ratio >= least
        )

    @classmethod
    def time(cls, title: str, milliseconds: list[float], most: float | None, more: str = "") -> "Figure":
        """Return the longest of several times."""
        worst = max(milliseconds)
        text = f"worst {worst:,.1f} ms, best {min(milliseconds):,.1f} of {len(milliseconds):,}{more}"
        return cls(title, text, "" if most is None else f"<= {most:g} ms", None if most is None else worst <= most)


def table(figures: Iterable[Figure]) -> str:
    """Return figures with their goals, a line each."""
    found = list(figures)
    width = max((len(each.title) for each in found), default=0)
    verdicts = {True: "met", False: "NOT MET", None: ""}
    return "\n".join(
        f"{each.title:<{width}}  {each.text}" + (f" ({each.goal}: {verdicts[each.is_met]})" if each.goal else "")
        for each in found
    )
