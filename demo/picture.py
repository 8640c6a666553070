"""The picture: the queue's depth over time, between its thresholds, and when its gate held the publishers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.watch import Sample, Span, Story

MIB = 2**20
DETAIL_SECONDS = 5.0
"""Length of the part that is drawn larger."""

# Okabe and Ito's colours, for those who do not see red and green apart, two of them darker so that they can be read as
# text; each line has its own dashes too.
DEPTH, CAPACITY, STOP, RESUME, CLOSED = "#0072B2", "#D55E00", "#A65F00", "#00785A", "#8C8C8C"
SHADE = 0.35
"""How strong the grey behind a line is."""
BRIEF = 0.6
"""How strong the grey of a sum is."""
SECONDS = "seconds since the publishers started"
GATE = "the gate"
"""Name of the first lane."""
NOTES = (
    "The depth passes stop: the gate closes. Publishers get no more confirms, and wait. "
    "What is under way still enters, but never beyond the capacity.",
    "Spark has written a batch and settles it: the depth falls to resume or below. "
    "The gate opens, and the publishers continue in turn.",
)
"""What the numbers in the larger part mean."""


@dataclass(frozen=True)
class Scene:
    """What is drawn. Times in seconds since the epoch, amounts in octets."""

    title: str
    samples: Sequence[Sample]
    story: Story
    begun: float
    first_batch: float
    """When Spark's first batch was done."""
    ended: float
    capacity: int
    stop: int
    resume: int

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


def draw(scene: Scene, path: Path) -> None:
    """Write the picture; the ending of `path` says in which format (png, svg)."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words
    import matplotlib.pyplot as plt

    lanes = [(GATE, scene.story.closed), *sorted(scene.story.blocked.items())]
    figure, (whole, detail, who) = plt.subplots(
        3, 1, figsize=(12, 10), height_ratios=[3.5, 4, 0.2 + 0.36 * len(lanes)], layout="constrained"
    )
    try:
        first, last = busiest(scene)
        figure.suptitle(scene.title, x=0.01, ha="left", fontsize=15, fontweight="bold")
        _depth_panel(whole, scene, 0.0, scene.seconds)
        whole.set_title("Depth of the queue", loc="left", fontsize=11)
        whole.axvspan(first, last, facecolor="none", edgecolor="black", linewidth=1.2, zorder=4)
        _first_batch(whole, scene)
        lighter = "; lighter: for a part of each second" if has_sums(scene.story.closed) else ""
        whole.set_xlabel(SECONDS)
        _legend(whole, [("depth", DEPTH, 1.0), (f"the gate is closed{lighter}", CLOSED, SHADE)])
        _depth_panel(detail, scene, first, last)
        detail.set_title(f"The {last - first:.3g} seconds in the frame", loc="left", fontsize=11)
        detail.tick_params(labelbottom=False)
        notes = _number(detail, scene, first, last)
        _lanes_panel(who, scene, lanes, first, last)
        figure.supxlabel(notes, x=0.01, ha="left", fontsize=10, linespacing=1.5)
        figure.savefig(path, dpi=130)
    finally:
        plt.close(figure)


def depth(scene: Scene) -> list[tuple[float, float]]:
    """Return the depth in MiB over seconds since the begin: the samples, and what the log says of each crossing."""
    points = [(sample.at, sample.octets) for sample in scene.samples] + scene.story.crossings
    return [(at - scene.begun, octets / MIB) for at, octets in sorted(points) if at <= scene.ended]


def busiest(scene: Scene) -> tuple[float, float]:
    """Return the part to be drawn larger: where most publishers become blocked, and of such the most closings.

    Sums of closings are included.
    """
    if scene.seconds <= DETAIL_SECONDS:
        return 0.0, scene.seconds
    times = [(span.begin - scene.begun, span.count) for span in scene.story.closed]
    blocked = [[span.begin - scene.begun for span in spans] for spans in scene.story.blocked.values()]

    def happens(start: float) -> tuple[int, int]:
        end = start + DETAIL_SECONDS
        publishers = sum(any(start <= at < end for at in begins) for begins in blocked)
        return publishers, sum(count for at, count in times if start <= at < end)

    first = max([0.0] + [min(at, scene.seconds - DETAIL_SECONDS) for at, _ in times], key=happens)
    first = max(0.0, first - DETAIL_SECONDS / 25)  # what comes before the closing
    return first, first + DETAIL_SECONDS


def has_sums(spans: Sequence[Span]) -> bool:
    return any(span.share < 1.0 for span in spans)


def _depth_panel(axes: Any, scene: Scene, first: float, last: float) -> None:
    for span in scene.story.closed:
        begin, end = span.begin - scene.begun, span.end - scene.begun
        axes.axvspan(begin, end, color=CLOSED, alpha=SHADE * span.share, linewidth=0)
    points = depth(scene)
    axes.plot([at for at, _ in points], [amount for _, amount in points], color=DEPTH, linewidth=1.4, zorder=3)
    for name, amount, colour, dashes in _marks(scene):
        axes.axhline(amount / MIB, color=colour, linestyle=dashes, linewidth=1.8)
        _beside(axes, amount / MIB, f"{name} {amount / MIB:.2f}", colour)
    axes.set_xlim(first, last)
    axes.set_ylim(0, scene.capacity / MIB * 1.08)
    axes.set_ylabel("MiB")
    _plain(axes)


def _beside(axes: Any, height: float, text: str, colour: str) -> None:
    """Write a text to the right of a panel."""
    axes.annotate(
        text,
        (1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        color=colour,
        va="center",
        fontsize=10,
    )


def _marks(scene: Scene) -> list[tuple[str, int, str, str]]:
    """Return the lines that do not move: name, octets, colour, dashes."""
    return [
        ("capacity", scene.capacity, CAPACITY, "-"),
        ("stop", scene.stop, STOP, "--"),
        ("resume", scene.resume, RESUME, ":"),
    ]


def _first_batch(axes: Any, scene: Scene) -> None:
    """Explain the long first closing, where there is room for it."""
    first = min((span.begin for span in scene.story.closed), default=scene.ended)
    if scene.first_batch - first > scene.seconds / 10:
        middle = (first + scene.first_batch) / 2 - scene.begun
        text = "Spark's\nfirst batch\ntakes longest"
        axes.text(middle, scene.resume / MIB / 2, text, ha="center", va="center")


def _legend(axes: Any, meanings: list[tuple[str, str, float]]) -> None:
    """Explain colours of a strength above the panel, where that hides nothing."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, alpha=strength, label=name) for name, colour, strength in meanings]
    axes.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(handles), frameon=False, fontsize=10
    )


def _number(axes: Any, scene: Scene, first: float, last: float) -> str:
    """Number one closing and its opening; return what the numbers mean, nothing if there is no closing to number."""
    spans = [span for span in scene.story.closed if span.share == 1.0 and _is_inside(scene, span, first, last)]
    if not spans:
        return ""
    longest = max(spans, key=lambda span: span.seconds)
    marks = ((longest.begin, scene.stop), (longest.end, scene.resume))
    for number, (at, octets) in enumerate(marks, 1):
        circle = {"boxstyle": "circle", "facecolor": "white", "edgecolor": "black"}
        axes.text(at - scene.begun, octets / MIB, str(number), bbox=circle, ha="center", va="center", zorder=5)
    return "\n".join(f"{number}  {note}" for number, note in enumerate(NOTES, 1))


def _is_inside(scene: Scene, span: Span, first: float, last: float) -> bool:
    return first < span.begin - scene.begun and span.end - scene.begun < last


def _lanes_panel(axes: Any, scene: Scene, lanes: list[tuple[str, list[Span]]], first: float, last: float) -> None:
    for place, (_, spans) in enumerate(lanes):
        for span in spans:
            height, strength = 0.7 * span.share, 1.0 if span.share == 1.0 else BRIEF
            begin, bottom = span.begin - scene.begun, place + 0.35 - height
            axes.broken_barh([(begin, span.end - span.begin)], (bottom, height), facecolor=CLOSED, alpha=strength)
        share = sum(span.seconds for span in spans) / scene.seconds
        _beside(axes, place, f"{share:.0%} of the run", "black")
    axes.set_yticks(range(len(lanes)), [name for name, _ in lanes])
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlim(first, last)
    axes.set_title("When the gate was closed, and each publisher blocked", loc="left", fontsize=11)
    meanings = [("lasting", CLOSED, 1.0)]
    if any(has_sums(spans) for _, spans in lanes):
        meanings.append(("brief ones, summed: height is their part of a second", CLOSED, BRIEF))
    _legend(axes, meanings)
    axes.set_xlabel(SECONDS)
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10)
