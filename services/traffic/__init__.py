"""The traffic service."""
