"""Covering, union and simplification of predicates, and the pool that shares their results."""
