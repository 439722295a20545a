"""The driver of Siena Fast Forwarding (SFF): its language, and what answers it."""
