"""The emulated network: its switches and hosts, one run on it, and commands to a running emulation."""
