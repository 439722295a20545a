"""The oracle: who should have received each message. Shares no code with the router's matcher."""
