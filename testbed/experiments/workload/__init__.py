"""Seeded workloads and the driver that plays them through the routers' application sockets."""
