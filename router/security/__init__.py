"""Authentication of frames (docs/explanation/security.md)."""
