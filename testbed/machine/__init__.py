"""What this machine can do: checks, the probes that they ask, versions."""
