"""The web console: its pages, and the events that keep them current."""
