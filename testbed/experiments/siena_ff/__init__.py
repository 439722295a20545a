"""The driver language of Siena Fast Forwarding (SFF): its reader, its sessions, its synthetic tables."""
