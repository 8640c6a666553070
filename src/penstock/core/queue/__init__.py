"""A queue and its parts: ready messages, counters, expiry, length limit, paging, overflow policies."""
