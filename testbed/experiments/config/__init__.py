"""Experiment files: model, loader and validation."""
