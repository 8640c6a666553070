"""The picture: the queue's depth over time, between its thresholds, and when it held its producers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.watch import Sample, Story

MIB = 2**20
DETAIL_SECONDS = 10.0
"""Length of the part that is drawn larger."""

# Okabe and Ito's colours, for those who do not see red and green apart, two of them darker so that they can be read as
# text; each line has its own dashes too.
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
        3, 1, figsize=(12, 9.5), height_ratios=[4, 4, 0.6 + 0.4 * len(lanes)], layout="constrained"
    )
    try:
        points = depth(scene)
        first, last = busiest(scene)
        figure.suptitle(scene.title, x=0.01, ha="left", fontsize=14, fontweight="bold")
        _depth_panel(whole, scene, points, 0.0, scene.ended - scene.begun)
        whole.set_title("Depth of the queue", loc="left", fontsize=11)
        whole.axvspan(first, last, facecolor="none", edgecolor="black", linewidth=1.2)
        _legend(whole)
        _depth_panel(detail, scene, points, first, last)
        detail.set_title(f"The {last - first:.0f} seconds in the frame", loc="left", fontsize=11)
        _lanes_panel(who, scene, lanes, first, last)
        figure.savefig(path, dpi=130)
    finally:
        plt.close(figure)


def depth(scene: Scene) -> list[tuple[float, float]]:
    """Return the depth in MiB over seconds since the begin: the samples, and what the log says of each crossing."""
    crossings = scene.story.crossings
    # The number in the middle puts a sample before or after a crossing of the same time.
    points = [(at, place + 0.5, octets) for place, (at, octets) in enumerate(crossings)]
    for sample in scene.samples:
        # When exactly the broker answered is not known, but between which crossings is.
        place = min(sample.crossings, len(crossings))
        earliest = crossings[place - 1][0] if place else scene.begun
        latest = crossings[place][0] if place < len(crossings) else scene.ended
        points.append((max(earliest, min(sample.at, latest)), place, sample.octets))
    return [(at - scene.begun, octets / MIB) for at, _, octets in sorted(points) if at <= scene.ended]


def busiest(scene: Scene) -> tuple[float, float]:
    """Return the part to be drawn larger: where the gate closed and opened most often."""
    length = scene.ended - scene.begun
    if length <= DETAIL_SECONDS:
        return 0.0, length
    times = [at - scene.begun for at, _ in scene.story.crossings]
    starts = [0.0] + [min(at, length - DETAIL_SECONDS) for at in times]
    first = max(starts, key=lambda start: sum(start <= at <= start + DETAIL_SECONDS for at in times))
    return first, first + DETAIL_SECONDS


def _depth_panel(axes: Any, scene: Scene, points: list[tuple[float, float]], first: float, last: float) -> None:
    for span in scene.story.closed:
        axes.axvspan(span.begin - scene.begun, span.end - scene.begun, color=CLOSED, alpha=0.3, linewidth=0)
    axes.plot([at for at, _ in points], [amount for _, amount in points], color=DEPTH, linewidth=1.4, zorder=3)
    for name, amount, colour, dashes in _marks(scene):
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
    axes.set_ylabel("MiB")
    _plain(axes)


def _marks(scene: Scene) -> list[tuple[str, int, str, str]]:
    """Return the lines that do not move: name, octets, colour, dashes."""
    return [
        ("capacity", scene.capacity, CAPACITY, "-"),
        ("stop", scene.stop, STOP, "--"),
        ("resume", scene.resume, RESUME, ":"),
    ]


def _legend(axes: Any) -> None:
    """Explain line and shading above the panel, where they hide nothing."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [Line2D([], [], color=DEPTH, linewidth=1.6), Patch(facecolor=CLOSED, alpha=0.3)]
    names = ["depth", "gate closed: producers are blocked"]
    axes.legend(handles, names, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False, fontsize=10)


def _lanes_panel(axes: Any, scene: Scene, lanes: list[str], first: float, last: float) -> None:
    for place, name in enumerate(lanes):
        spans = [(span.begin - scene.begun, span.end - span.begin) for span in scene.story.blocked[name]]
        axes.broken_barh(spans, (place - 0.35, 0.7), facecolor=CLOSED, edgecolor="none")
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(max(len(lanes) - 0.4, 0.4), -0.6)
    axes.set_xlim(first, last)
    axes.set_title("Blocked, by producer", loc="left", fontsize=11)
    axes.set_xlabel("seconds since the publishers started")
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10)
