"""Support for tests: networks in memory, capture files, run folders, processes."""
