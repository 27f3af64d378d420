"""The Kubernetes API over a ``Store``: requests in, answers or watches out, no sockets."""
