"""One network over several machines (docs/adr/0045)."""
