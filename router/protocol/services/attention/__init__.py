"""The attention-limited service: subscriptions with a maximum, a lifetime and a freshness."""
