"""Discrete-event simulation: the emulation's protocol code in virtual time, without a network."""
