"""The admin API: who may use it, what it shows of a running gateway, and what it changes.

`documents` makes JSON of what runs, as pure functions; the rest are handlers and their limits. The adapter to the
gateway is `gateway.server.admin.administration`, the commands are in `gateway.cli.admin`.
"""
