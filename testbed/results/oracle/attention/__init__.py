"""The oracle of attention-limited subscriptions: what a router may deliver, and what it should have."""
