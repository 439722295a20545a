"""The run folder: the name of every file, and the reader and writer of each."""
