"""Ranges: cursors, their plans and blocks, leases, and the batches that queries publish. The door is `service`."""
