"""Parts of a connection that all protocols share."""
