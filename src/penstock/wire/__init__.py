"""What the bytes say: pure codecs of the wire protocols, which know no broker, no socket and no clock."""
