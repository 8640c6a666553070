"""The picture: the queue's depth over time, between its thresholds, and when it held its producers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.watch import Sample, Span, Story

MIB = 2**20
DETAIL_SECONDS = 10.0
"""Length of the part that is drawn larger."""

# Okabe and Ito's colours, which those who do not see red and green apart can tell apart; each line has its own dashes too.
DEPTH, CAPACITY, STOP, RESUME, CLOSED = "#0072B2", "#D55E00", "#A65F00", "#00785A", "#8C8C8C"


@dataclass(frozen=True)
class Scene:
    """What is drawn. Times in seconds since the epoch, amounts in octets."""

    title: str
    samples: Sequence[Sample]
    story: Story
    begun: float
    ended: float
    capacity: int
    stop: int
    resume: int


def draw(scene: Scene, path: Path) -> None:
    """Write the picture; the ending of `path` says in which format (png, svg)."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words
    import matplotlib.pyplot as plt

    lanes = sorted(scene.story.blocked)
    figure, (whole, detail, who) = plt.subplots(
        3, 1, figsize=(12, 9), height_ratios=[4, 4, 0.6 + 0.4 * len(lanes)], layout="constrained"
    )
    try:
        points = depth(scene)
        first, last = _detail(scene)
        _depth_panel(whole, scene, points, 0.0, scene.ended - scene.begun)
        whole.set_title(scene.title, loc="left", fontsize=13, fontweight="bold")
        whole.axvspan(first, last, facecolor="none", edgecolor="black", linewidth=1.2)
        _depth_panel(detail, scene, points, first, last)
        detail.set_title(f"The {last - first:.0f} seconds in the frame", loc="left", fontsize=11)
        _lanes_panel(who, scene, lanes, first, last)
        figure.savefig(path, dpi=130)
    finally:
        plt.close(figure)


def depth(scene: Scene) -> list[tuple[float, float]]:
    """Return the depth in MiB over seconds since the begin: what was sampled, and what the log says of each crossing."""
    points = [(sample.at, sample.octets) for sample in scene.samples] + scene.story.crossings
    return [(at - scene.begun, octets / MIB) for at, octets in sorted(points) if at <= scene.ended]


def _detail(scene: Scene) -> tuple[float, float]:
    length = scene.ended - scene.begun
    middle = length / 2
    return max(0.0, middle - DETAIL_SECONDS / 2), min(length, middle + DETAIL_SECONDS / 2)


def _depth_panel(axes: Any, scene: Scene, points: list[tuple[float, float]], first: float, last: float) -> None:
    _shade(axes, scene, scene.story.closed, 0.0, 1.0)
    axes.plot([at for at, _ in points], [amount for _, amount in points], color=DEPTH, linewidth=1.3, label="depth")
    marks = (("capacity", scene.capacity, CAPACITY, "-"), ("stop", scene.stop, STOP, "--"), ("resume", scene.resume, RESUME, ":"))
    for name, amount, colour, dashes in marks:
        axes.axhline(amount / MIB, color=colour, linestyle=dashes, linewidth=1.8)
        axes.annotate(
            f"{name} {amount / MIB:.2f}",
            (1.0, amount / MIB),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=10,
        )
    axes.set_xlim(first, last)
    axes.set_ylim(0, scene.capacity / MIB * 1.08)
    axes.set_ylabel("depth (MiB)")
    axes.set_xlabel("seconds since the publishers started")
    _plain(axes)
    _legend(axes)


def _legend(axes: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [Line2D([], [], color=DEPTH, linewidth=1.6), Patch(facecolor=CLOSED, alpha=0.3)]
    axes.legend(handles, ["depth", "gate closed: producers blocked"], loc="lower right", framealpha=0.95, fontsize=9)


def _lanes_panel(axes: Any, scene: Scene, lanes: list[str], first: float, last: float) -> None:
    for place, name in enumerate(lanes):
        spans = [(span.begin - scene.begun, span.end - span.begin) for span in scene.story.blocked[name]]
        axes.broken_barh(spans, (place - 0.35, 0.7), facecolor=CLOSED, edgecolor="none")
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(-0.6, max(len(lanes) - 0.4, 0.4))
    axes.set_xlim(first, last)
    axes.invert_yaxis()
    axes.set_title("Blocked, by producer", loc="left", fontsize=11)
    axes.set_xlabel("seconds since the publishers started")
    _plain(axes)


def _shade(axes: Any, scene: Scene, spans: Sequence[Span], low: float, high: float) -> None:
    for span in spans:
        axes.axvspan(span.begin - scene.begun, span.end - scene.begun, low, high, color=CLOSED, alpha=0.3, linewidth=0)


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10)
