"""The abilities of this machine: checks, the probes that they use, versions."""
