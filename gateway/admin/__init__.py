"""The admin API: who may use it, what it shows of a running gateway, and what it changes.

`access` knows who calls; `documents` makes JSON of what runs, as pure functions; `live` is what changes while somebody
watches; `console` is a page that uses the API. The adapter to the
gateway is `gateway.server.admin.administration`, the commands are in `gateway.cli.admin`.
"""
