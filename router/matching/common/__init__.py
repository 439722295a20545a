"""The interface of matching engines, and tables as columns."""
