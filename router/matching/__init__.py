"""The forwarding function F_C: which interfaces hold a predicate that a message matches."""
