"""The `cbcb` command line."""
