"""OME Rollouts: pinning, canary, traffic and collection decisions as gRPC services."""
