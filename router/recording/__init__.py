"""What a router was given and what it answered, in a file; and the same again from that file."""
