"""The oracle, which decides the receivers of each message without code of the router's matcher."""
