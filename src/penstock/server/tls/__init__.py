"""TLS of the listeners: contexts, handshakes, and the layer between a socket and its protocol."""
