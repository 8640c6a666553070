"""Bridges: messages of one broker that go on to another, as fast as it takes them."""
