"""Parts of a connection that are common to all protocols."""
