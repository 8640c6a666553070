"""Screen of `penstock top`, with textual: the only module that needs the extra `terminal`."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from penstock.cli import common, top_view
from penstock.cli.tables import COLUMN_COLOURS
from penstock.errors import PenstockError
from penstock.texts import counted, printable

RIGHT: Final = ("messages", "unacked", "bytes", "in/s", "out/s", "consumers", "blocked", "closed for")
STYLES: Final = {"alarm": "bold red", "warning": "yellow", "good": "green", "heading": "bold"}


class WhyScreen(ModalScreen[None]):
    """Answer of `penstock why QUEUE`, until a key is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Show the answer; a long answer scrolls."""
        with VerticalScroll(id="why"):
            yield Static(Text(self._text))


class TopScreen(App[int]):
    """Queues that are refreshed; a separate thread asks the broker, so that keys never wait for it."""

    CSS = """
    #headline { height: 1; text-style: bold; }
    #state { height: 1; }
    #blocked { height: auto; max-height: 30%; margin: 0 0 1 0; }
    DataTable { height: 1fr; overflow-x: hidden; scrollbar-gutter: stable; }
    Input { display: none; }
    Input.shown { display: block; }
    WhyScreen { align: center middle; }
    #why { width: 90%; height: auto; max-height: 80%; border: round $accent; background: $surface; padding: 0 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave(0)", "Quit"),
        Binding("ctrl+c", "leave(130)", "Quit", show=False, priority=True),
        Binding("p", "pause", "Pause"),
        Binding("o", "order", "Order"),
        Binding("e", "everywhere", "All vhosts"),
        Binding("slash", "search", "Prefix"),
        Binding("w", "why", "Why"),  # As the key Enter, which the table uses.
    ]

    def __init__(self, feed: common.Feed, fields: dict[str, object], interval_s: float) -> None:
        super().__init__()
        self._feed = feed
        self._fields = fields
        self._interval_s = interval_s
        self._paused = False
        self._asked_why: str | None = None
        self._woken = threading.Event()
        self._ended = False
        self._heads: top_view.Row = ()
        self._names: list[tuple[str, str]] = []
        """Virtual host and name of each shown queue."""
        self._vhost = ""
        self._left_out = 0
        """Columns for which the terminal has no room."""
        self._has_terminal = os.isatty(0)

    def compose(self) -> ComposeResult:
        """Make the parts, from top to bottom."""
        yield Static("connecting", id="headline")
        yield Static("", id="state")
        yield Static("", id="blocked")
        yield DataTable(cursor_type="row", zebra_stripes=False)
        yield Input(placeholder="names that begin with ...")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to ask the broker."""
        self._set_heads(top_view.HEADS)
        self.query_one(DataTable).focus()
        threading.Thread(target=self._ask, name="feed", daemon=True).start()

    # In the thread that asks the broker

    def _ask(self) -> None:
        """Ask until the end; a failed request is reported, and repeated."""
        with contextlib.suppress(RuntimeError):  # The screen has ended.
            while not self._ended:
                self._woken.clear()
                self._ask_once()
                self._woken.wait(self._interval_s)
                if self._has_terminal and not os.isatty(0):  # The terminal vanished without a signal.
                    self.call_from_thread(self.action_leave, 1)
        self._feed.close()

    def _ask_once(self) -> None:
        queue, self._asked_why = self._asked_why, None
        try:
            if queue is not None:
                found = self._feed.ask("why", {"queue": queue})
                self.call_from_thread(self._show_why, "\n".join(map(printable, found["sentences"])))
            if not self._paused:
                samples = top_view.samples_wanted(self.size.width)
                top, why = self._feed.ask("top", self._fields | {"history": samples}), self._feed.ask("why", {})
                self.call_from_thread(self._show, top, why)
        except (PenstockError, OSError) as error:
            self.call_from_thread(self._show_lost, str(error))

    # In the thread of the screen

    def _show(self, top: dict[str, Any], why: dict[str, Any]) -> None:
        self._vhost = top["vhost"]
        everywhere = self._fields.get("everywhere") is True
        self.query_one("#headline", Static).update(Text(top_view.headline(top, everywhere, self.size.width)))
        blocked = top_view.blocked_lines(why, self.size.width)
        text = Text("\n".join(blocked), STYLES["alarm"]) if blocked else Text("no producer is blocked", STYLES["good"])
        self.query_one("#blocked", Static).update(text)
        width = self.query_one(DataTable).scrollable_content_region.width
        picture = top_view.picture_of(top["items"], everywhere, width)
        self._left_out = len(picture.left_out)
        self._show_state()
        self._fill([(item["vhost"], item["name"]) for item in top["items"]], picture.heads, picture.rows)

    def _set_heads(self, heads: top_view.Row) -> None:
        """Rebuild the table with these columns."""
        table = self.query_one(DataTable)
        table.clear(columns=True)
        for head in heads:
            table.add_column(Text(head, justify="right" if head in RIGHT else "left"), key=head)
        self._heads = heads

    def _fill(self, names: list[tuple[str, str]], heads: top_view.Row, rows: list[top_view.Row]) -> None:
        """Show rows; the cursor stays on its queue."""
        table = self.query_one(DataTable)
        chosen = self._names[table.cursor_row] if table.cursor_row < len(self._names) else None
        offset = table.scroll_offset
        if heads == self._heads:
            table.clear()
        else:
            self._set_heads(heads)
        for row in rows:
            table.add_row(*(_cell(head, text) for head, text in zip(heads, row, strict=True)))
        self._names = names
        if chosen in names:
            table.move_cursor(row=names.index(chosen), animate=False, scroll=False)
        table.scroll_to(offset.x, offset.y, animate=False)

    def _show_state(self) -> None:
        said = "paused" if self._paused else f"every {self._interval_s:g} s"
        prefix = self._fields.get("prefix")
        begins = f", names that begin with {printable(str(prefix))}" if prefix else ""
        narrow = f"; a wider terminal has {counted(self._left_out, 'more column')}" if self._left_out else ""
        self.query_one("#state", Static).update(Text(f"{said}, by {self._fields['order']}{begins}{narrow}", "dim"))

    def _show_lost(self, reason: str) -> None:
        text = Text(printable(f"no answer, asking again: {reason}"), STYLES["alarm"])
        self.query_one("#state", Static).update(text)

    def _show_why(self, text: str) -> None:
        self.push_screen(WhyScreen(text))

    # Keys

    def action_leave(self, code: int) -> None:
        """End; the thread that asks is not waited for."""
        self._ended = True
        self._woken.set()
        self.exit(code)

    def action_pause(self) -> None:
        """Pause or resume asking."""
        self._paused = not self._paused
        self._show_state()
        self._woken.set()

    def action_order(self) -> None:
        """Switch to the next order."""
        order, orders = str(self._fields["order"]), top_view.ORDERS
        self._fields = self._fields | {"order": orders[(orders.index(order) + 1) % len(orders)]}
        self._woken.set()

    def action_everywhere(self) -> None:
        """Show all virtual hosts, or the one in --url again."""
        self._fields = self._fields | {"everywhere": self._fields.get("everywhere") is not True}
        self._woken.set()

    def action_search(self) -> None:
        """Ask for the beginning of names."""
        field = self.query_one(Input)
        field.add_class("shown")
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show only names with this beginning; all names for an empty text."""
        self._fields = self._fields | {"prefix": event.value}
        event.input.remove_class("shown")
        self.query_one(DataTable).focus()
        self._woken.set()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Explain the queue whose row was chosen."""
        self.action_why()

    def action_why(self) -> None:
        """Explain the queue at the cursor."""
        row = self.query_one(DataTable).cursor_row
        if row >= len(self._names):
            return
        vhost, name = self._names[row]
        if vhost != self._vhost:
            self._show_why(f"queue {printable(name)} is in vhost {printable(vhost)}: ask with an --url of that vhost")
            return
        self._asked_why = name
        self._woken.set()


def _cell(head: str, text: str) -> Text:
    """Return a cell in its style."""
    colour = COLUMN_COLOURS.get(head)
    meaning = None if colour is None else colour(text)
    return Text(text, STYLES.get(meaning or "", ""), justify="right" if head in RIGHT else "left", no_wrap=True)
