"""Input files of the protocol authors' simulator."""
