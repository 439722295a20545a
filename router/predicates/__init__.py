"""Messages and predicates of the content-based service model (protocol paper, section 2)."""
