"""Recordings of a run's routers, replayed: tables at any moment, and why a router decided as it did."""
