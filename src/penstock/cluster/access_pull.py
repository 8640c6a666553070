"""Pull of the catalogue by a shard: it asks for pages until it has all users, permissions and virtual hosts of its own.

The node names the version of its catalogue with each question and after each change. A shard that has less asks. An
answer that does not come is asked for again after the next question, so that a change takes a second at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.cluster.access_copy import AccessCopy
from penstock.cluster.access_pages import read_place, read_rows
from penstock.cluster.catalogue import AccessRow
from penstock.cluster.packet_channel import Row
from penstock.cluster.shard_orders import HAS, PULL
from penstock.core.settings.table import CLUSTER_NAME, Parameter
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, StoreError
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from penstock.logs.ids import CHANGED, STORE_ODD
from penstock.logs.logger import log
from penstock.operations.users import barred, close_barred
from penstock.operations.vhosts import declare_vhost, delete_vhost_steps, set_attributes
from penstock.persistence.metadata_records import PARAMETER, VHOST, unpack
from penstock.server.shard import Shard


class AccessPull:
    """The pull of one shard."""

    def __init__(self, shard: Shard, send: Callable[[Row], None]) -> None:
        """`send` sends a message to the node, or drops it."""
        self._shard = shard
        self._send = send
        self._copy = AccessCopy(shard.driver.broker.access)
        self.version = -1
        """Version of the catalogue that the table has."""
        self._changed = False
        """True if this pull has changed the table."""
        self._spared = False
        """True if connections that wait for an answer are closed after it."""
        self.whole = asyncio.Event()
        """Set once the table has all that the catalogue had."""

    def ask(self) -> None:
        """Ask for the next page."""
        self._send({PULL: list(self._copy.place)})

    def meet(self, version: int) -> None:
        """Ask for a page if the catalogue has another version than the table."""
        if self._spared:
            self._close_barred()
        if version != self.version:
            self.ask()

    def apply(self, page: Row) -> None:
        """Apply a page, close the connections of users who may not be there any more, and ask for the next page.

        A page that does not begin at the end of the last one was asked for twice, and is left out.
        """
        if read_place(page["after"]) != self._copy.place:
            return
        event_loop, driver = self._shard.event_loop, self._shard.driver
        driver.begin(event_loop.loop.time())
        rows = read_rows(page)
        for row in rows:
            if row.kind == VHOST:
                self._apply_vhost(row)
            elif row.kind == PARAMETER:
                self._apply_cluster_name(row)
        access = [row for row in rows if row.kind not in (VHOST, PARAMETER)]
        for sentence in self._copy.apply(access, read_place(page["place"]), bool(page["last"])):
            log(STORE_ODD, "%s", sentence)
        self._changed = self._changed or bool(page["rows"])
        if page["last"]:
            self._end(int(page["version"]))
        else:
            self.ask()
        event_loop.schedule()

    def _apply_cluster_name(self, row: AccessRow) -> None:
        """Set or remove the name of the cluster; the store of the shard does not have it."""
        parameters = self._shard.driver.broker.table.parameters
        if row.value is None:
            parameters.drop("", "", CLUSTER_NAME)
            return
        try:
            value = unpack(row.value).table("content").get("value")
            parameters.put(Parameter("", "", CLUSTER_NAME, value))
        except (BrokerError, StoreError) as error:
            log(STORE_ODD, "the name of the cluster is left out: %s", error)

    def _apply_vhost(self, row: AccessRow) -> None:
        """Create or delete a virtual host of the shard. A deletion takes as many turns as it needs."""
        driver = self._shard.driver
        if row.value is None:
            driver.scheduler.start(_delete(driver, row.key))
            return
        there = driver.broker.vhosts.get(row.key)
        if there is not None and there.deleting:
            driver.scheduler.start(_declare_later(driver, row.key, row.value))
        else:
            _declare(driver, row.key, row.value)

    def _end(self, version: int) -> None:
        """End a pull: the table has this version, and who may not be there any more is cut off."""
        if self._changed:
            self._close_barred()
        self._changed = False
        self.version = version
        self.whole.set()
        self._send({HAS: version})

    def _close_barred(self) -> None:
        event_loop, driver = self._shard.event_loop, self._shard.driver
        driver.begin(event_loop.loop.time())
        closed = close_barred(driver, "permissions have changed")
        self._spared = bool(barred(driver))
        if closed:
            log(CHANGED, "connections are closed, whose users may not use their vhosts any more: %d", closed)
            event_loop.schedule()


def _declare(driver: BrokerDriver, name: str, record: bytes) -> None:
    """Create a virtual host with the attributes that the catalogue has."""
    try:
        fields = unpack(record)
        declare_vhost(driver, name)
        set_attributes(driver, driver.vhost(name), fields.table("metadata"))
    except (BrokerError, StoreError) as error:
        log(STORE_ODD, "vhost '%s' of the catalogue is left out: %s", name, error)


def _declare_later(driver: BrokerDriver, name: str, record: bytes) -> Steps[None]:
    """Create a virtual host after its deletion, which is a change in the same line."""
    _declare(driver, name, record)
    yield


def _delete(driver: BrokerDriver, name: str) -> Steps[None]:
    """Delete a virtual host that the catalogue does not have any more."""
    if name in driver.broker.vhosts:
        try:
            yield from delete_vhost_steps(driver, name, WorkProgress())
        except BrokerError as error:
            log(STORE_ODD, "vhost '%s' is not in the catalogue any more, and stays: %s", name, error)
