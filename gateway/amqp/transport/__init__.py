"""Sockets: protocol header, TLS, heartbeats and the flushing of output (part 2, 2.2 and 2.4).

It uses the event loop and the clock. Uses engine, sasl and the limits of `gateway.held`; the owner of connections, a
listener or connector, is a `connection.ConnectionDelegate`.
"""
