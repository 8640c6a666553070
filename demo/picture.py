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
TURN = (
    "{name} is still blocked although the gate is open: its turn has not come. Publishers continue one after another, "
    "each with its share of the bytes."
)
"""What the number in a lane means."""


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
        notes += _number_turn(who, scene, [name for name, _ in lanes], first, last)
        figure.supxlabel(notes.strip(), x=0.01, ha="left", fontsize=10, linespacing=1.5)
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


def longest_turn(scene: Scene, first: float, last: float) -> tuple[str, float, float] | None:
    """Return the longest time in which a publisher was blocked although the gate was open: name, begin and end.

    Times are seconds since the begin, within the part from `first` to `last`. Sums of brief closings or blocks are left
    out: when they were is not recorded. None if there is no such time.
    """
    found: list[tuple[float, str, float, float]] = []
    for name, spans in sorted(scene.story.blocked.items()):
        for span in spans:
            if span.share == 1.0:
                begin, end = max(span.begin - scene.begun, first), min(span.end - scene.begun, last)
                found += [(until - at, name, at, until) for at, until in _open_parts(scene, begin, end)]
    longest = max(found, default=None)
    return None if longest is None else longest[1:]


def _open_parts(scene: Scene, begin: float, end: float) -> list[tuple[float, float]]:
    """Return the parts of a time in which the gate was open."""
    parts = []
    for span in sorted(scene.story.closed, key=lambda span: span.begin):
        closed, opened = span.begin - scene.begun, span.end - scene.begun
        if closed < end and opened > begin:
            parts.append((begin, closed))
            begin = opened
    parts.append((begin, end))
    return [(at, until) for at, until in parts if at < until]


def share_of(scene: Scene, spans: Sequence[Span]) -> float:
    """Return the part of the run that spans took: the duty cycle of a gate, or the blocked share of a publisher."""
    return sum(span.seconds for span in spans) / scene.seconds


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
        _circle(axes, at - scene.begun, octets / MIB, number)
    return "\n".join(f"{number}  {note}" for number, note in enumerate(NOTES, 1))


def _circle(axes: Any, at: float, height: float, number: int) -> None:
    circle = {"boxstyle": "circle", "facecolor": "white", "edgecolor": "black"}
    axes.text(at, height, str(number), bbox=circle, ha="center", va="center", zorder=5)


def _number_turn(axes: Any, scene: Scene, names: list[str], first: float, last: float) -> str:
    """Number a publisher's wait for its turn, and return what the number means; nothing if no publisher waited so."""
    found = longest_turn(scene, first, last)
    if found is None:
        return ""
    name, begin, end = found
    number = len(NOTES) + 1
    _circle(axes, (begin + end) / 2, names.index(name), number)
    return f"\n{number}  {TURN.format(name=name)}"


def _is_inside(scene: Scene, span: Span, first: float, last: float) -> bool:
    return first < span.begin - scene.begun and span.end - scene.begun < last


def _lanes_panel(axes: Any, scene: Scene, lanes: list[tuple[str, list[Span]]], first: float, last: float) -> None:
    for place, (_, spans) in enumerate(lanes):
        for span in spans:
            height, strength = 0.7 * span.share, 1.0 if span.share == 1.0 else BRIEF
            begin, bottom = span.begin - scene.begun, place + 0.35 - height
            axes.broken_barh([(begin, span.end - span.begin)], (bottom, height), facecolor=CLOSED, alpha=strength)
        _beside(axes, place, f"{share_of(scene, spans):.0%} of the run", "black")
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
