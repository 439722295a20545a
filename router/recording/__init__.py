"""Recordings of a router's events and actions in a file, and their replay."""
