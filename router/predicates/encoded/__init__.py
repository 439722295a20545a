"""Predicates and messages encoded as Bloom sets under a key (slides, part IV)."""
