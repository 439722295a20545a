"""Services that routers offer to applications."""
