"""Digest of a runtime's spec, and what changed against another: pip install ome-rollouts-api, nothing else."""
import sys

import grpc
from ome.pinning.v1 import pinning_pb2 as pb
from ome.pinning.v1 import pinning_pb2_grpc

old, new = b'{"engineConfig":{"runner":{"image":"example:v1"}}}', b'{"engineConfig":{"runner":{"image":"example:v2"}}}'
with grpc.insecure_channel(sys.argv[1]) as channel:
    pinning = pinning_pb2_grpc.PinningServiceStub(channel)
    print(pinning.HashRuntime(pb.HashRuntimeRequest(spec=old), timeout=5).digest)
    diff = pb.DiffRevisionsRequest(left=pb.RevisionSide(live_spec=old), right=pb.RevisionSide(live_spec=new))
    for change in pinning.DiffRevisions(diff, timeout=5).changes:
        print(change.pointer, change.left_json.decode(), "->", change.right_json.decode())
