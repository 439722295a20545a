"""Pull routing: sender requests and update replies (protocol paper, sections 3.5.2 to 3.5.5)."""
