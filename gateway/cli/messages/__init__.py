"""Commands that exchange messages with any AMQP 1.0 server: `send`, `receive` and `request`, each in its module.

`gateway.cli.notation` (YAML) and `json_lines` write messages as text. The room may use `gateway.client` and
`gateway.amqp`; it knows nothing of the server and of policies.
"""
