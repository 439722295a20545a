"""Push routing: receiver advertisements (protocol paper, section 3.5.1)."""
