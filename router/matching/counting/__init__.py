"""The counting algorithm, with the optimisations of the forwarding papers."""
