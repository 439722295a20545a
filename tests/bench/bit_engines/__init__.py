"""Engines for sets of bits with which `bench bloom` compares `TreeMatcher`."""
