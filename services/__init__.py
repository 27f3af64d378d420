"""OME Rollouts: pinning, canary, traffic and collection decisions as gRPC services."""

import os

# gRPC's core reads this once, when it is first imported. Its own lines on stderr would stand between ours, which tell
# the same; whoever debugs the transport sets the variable.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
