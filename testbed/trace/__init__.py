"""The way of one message through a run: hop by hop, where it was pruned and why, who got it."""
