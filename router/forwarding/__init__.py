"""The data plane of a live router: messages in batches, by compiled code (docs/explanation/engine.md)."""
