"""What a run writes to its folder."""
