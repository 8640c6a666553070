"""Applications as people write them, one file a client: each says what it relies on, and runs on both brokers."""
