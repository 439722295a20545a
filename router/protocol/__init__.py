"""The CBCB protocol core, sans-IO: events in, actions out."""
