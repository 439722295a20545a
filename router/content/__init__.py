"""What the protocol needs of messages and predicates, behind one interface."""
