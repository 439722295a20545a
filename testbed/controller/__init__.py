"""The SDN controller: broadcast trees, replication rules, and the Ryu application."""
