"""Pure: the parts of a message that every protocol has, and the limits on them."""
