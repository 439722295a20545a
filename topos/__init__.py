"""Topologies: model, loaders, seeded generators and Mininet `Topo` classes."""
