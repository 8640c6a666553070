"""Groups of a journal as one transaction of the store."""

from __future__ import annotations

from penstock.adapter.keeping.notes import encode_note
from penstock.adapter.keeping.rows import encode_row
from penstock.adapter.keeping.things import encode_thing
from penstock.core.group import Group
from penstock.core.journal import Journal
from penstock.core.queue import Queue
from penstock.store.commit import Commit, Note, Position, Row


def encode(journal: Journal, groups: list[Group], wall_offset: float) -> Commit:
    """Return what the store writes for these groups; `wall_offset` makes wall time of the broker's clock (seconds)."""
    commit = Commit()
    for group in groups:
        number = int(group.number)
        if group.has_row():
            row = Row(number, encode_row(group, wall_offset), 0, 0, len(group.messages), int(group.size))
            commit.rows.append(row)
        for page in group.pages:
            commit.rows.append(
                Row(
                    int(page.group.number),
                    encode_row(page.group, wall_offset),
                    int(page.pages.kept.number),
                    int(page.first),
                    int(page.lasting),
                    int(page.lasting_bytes),
                )
            )
        commit.pages_gone += group.pages_gone
        note = encode_note(journal, group)
        if note:
            commit.notes.append(Note(number, note))
        for dead in group.dead:
            commit.rows_gone.append(int(dead.number))
            for reference in dead.notes:
                reference.rows -= 1
                if reference.rows == 0:
                    commit.notes_gone.append(int(reference.number))
        commit.notes_gone += group.stale
        for change in group.changes:
            commit.things.append(encode_thing(change))
            if change.gone and isinstance(change.thing, Queue) and change.thing.kept is not None:
                commit.positions_gone.append(int(change.thing.kept.number))
        for kept, messages in zip(group.touched, group.stored, strict=True):
            if not kept.queue.deleted:
                position = Position(int(kept.number), int(kept.queue.tail), int(kept.announce()), messages)
                commit.positions.append(position)
    return commit
