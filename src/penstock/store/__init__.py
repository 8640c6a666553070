"""Where messages and definitions are kept, and who may use a data directory."""
