"""The interface of messages and predicates that the protocol uses."""
