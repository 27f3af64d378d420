"""The canary service."""
