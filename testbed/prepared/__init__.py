"""The conclusion of a run on a session of Spark that was started while the emulation ran."""
