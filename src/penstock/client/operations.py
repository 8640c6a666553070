"""Table of the calls of a connection besides its publishers and receivers.

A connection of either shell derives from `Operations`, and gets a method for each.
"""

from __future__ import annotations

from penstock.client.control_operations import (
    block,
    clear_policy,
    copy_messages,
    export_definitions,
    import_definitions,
    move_messages,
    policies,
    redrive_messages,
    request,
    set_,
    set_policy,
    settings,
    show,
    status,
    unblock,
    unset,
    why,
)
from penstock.client.cursors import (
    attach_cursor,
    create_cursor,
    delete_cursor,
    move_cursor,
    plan_batch,
    read_range,
    release_cursor,
    settle_cursor,
    show_cursor,
)
from penstock.client.pages import browse, list_, watch
from penstock.client.requests import answers, call, drain
from penstock.client.shells import Listing, Operation, Shell
from penstock.client.topology import (
    bind,
    bind_exchange,
    declare_exchange,
    declare_queue,
    declare_vhost,
    delete_exchange,
    delete_queue,
    delete_vhost,
    purge_queue,
    unbind,
    unbind_exchange,
)


class Operations(Shell):
    """Calls of a connection besides its publishers and receivers. A connection derives from a shell and this."""

    drain = Operation(drain)

    declare_queue = Operation(declare_queue)
    delete_queue = Operation(delete_queue)
    purge_queue = Operation(purge_queue)
    move_messages = Operation(move_messages)
    copy_messages = Operation(copy_messages)
    redrive_messages = Operation(redrive_messages)
    declare_exchange = Operation(declare_exchange)
    delete_exchange = Operation(delete_exchange)
    bind = Operation(bind)
    unbind = Operation(unbind)
    bind_exchange = Operation(bind_exchange)
    unbind_exchange = Operation(unbind_exchange)
    call = Operation(call)
    request = Operation(request)
    why = Operation(why)
    block = Operation(block)
    unblock = Operation(unblock)
    set = Operation(set_)
    unset = Operation(unset)
    settings = Operation(settings)
    show = Operation(show)
    status = Operation(status)
    set_policy = Operation(set_policy)
    clear_policy = Operation(clear_policy)
    policies = Operation(policies)
    declare_vhost = Operation(declare_vhost)
    delete_vhost = Operation(delete_vhost)
    export_definitions = Operation(export_definitions)
    import_definitions = Operation(import_definitions)
    create_cursor = Operation(create_cursor)
    show_cursor = Operation(show_cursor)
    move_cursor = Operation(move_cursor)
    release_cursor = Operation(release_cursor)
    delete_cursor = Operation(delete_cursor)
    attach_cursor = Operation(attach_cursor)
    plan_batch = Operation(plan_batch)
    read_range = Operation(read_range)
    settle_cursor = Operation(settle_cursor)
    answers = Listing(answers)
    list = Listing(list_)
    browse = Listing(browse)
    watch = Listing(watch)
