"""Routing schemes: what an RA and a UR mean, and where a message goes."""
