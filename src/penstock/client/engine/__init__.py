"""Sans-I/O engines of the client, one for each protocol: bytes in and out, receipts, and waits to wake."""
