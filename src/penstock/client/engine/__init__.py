"""Sans-I/O engines of the client, one for each protocol: octets in, octets out, receipts, and whom to wake."""
