"""Links as nodes use them: the protocols, the links of the gateway itself, and what was decided about a link.

`link` has the protocols; a link of a peer is `gateway.amqp.link.link.Link`. `internal_link` has links without a peer,
`link_context` says how reply addresses of a link's messages are treated, and `decision` which routes the policy gave
it. May use `amqp`, `filters`, `principal` and `policies.rules`; it knows no node and no routing.
"""
