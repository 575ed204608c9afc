"""Sockets: protocol header, TLS, heartbeats and the flushing of output (part 2, 2.2 and 2.4).

Here are the loop and the clock of a connection. Uses engine, sasl and the limits of `gateway.held`; who owns
connections (listeners, connectors) is a `connection.ConnectionDelegate`.
"""
