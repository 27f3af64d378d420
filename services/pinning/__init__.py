"""The pinning service."""
