"""Client side of private matching: keys, encoding, sealed content, exact filtering."""
