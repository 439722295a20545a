"""The data plane of a live router: messages forwarded in batches by compiled code (docs/fast-path.md)."""
