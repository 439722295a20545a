"""What a command prints: progress, numbers, the summary of a run."""
