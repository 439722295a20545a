"""Captures: their lifecycle, their decoding, Spark accounting and reconciliation."""
