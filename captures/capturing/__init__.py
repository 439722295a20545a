"""Captures of every link: ready before the routers start, and stopped after they have ended."""
