"""The gc service."""
