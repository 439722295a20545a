"""The protocol core as a whole: the router, what takes its events and frames, the layers around it."""
