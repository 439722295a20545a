"""The trace of a message through a run: hops, pruned interfaces with the reasons, and receivers."""
