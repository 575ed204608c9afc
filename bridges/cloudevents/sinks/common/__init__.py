"""What sinks of every protocol use: connections to allowed addresses, TLS, answers of concurrent attempts.

The room uses `delivery` and `policies`, and no protocol.
"""
