"""The live router: raw sockets, one event loop, and the applications' Unix socket."""
