"""Attacks on encoded predicates and messages: how much a router without the key learns."""
