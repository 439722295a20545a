"""Output of commands: progress, numbers, the summary of a run."""
