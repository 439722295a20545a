"""Authentication of frames (docs/security.md)."""
