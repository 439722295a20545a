"""The documents that are generated from code: which they are, and how each is written."""
