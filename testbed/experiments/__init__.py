"""Experiments: their files, events, workloads and drawn content, and the formats of the authors' tools."""
