"""Links whose messages go to many nodes, and how messages change on their way from one scope to another.

`message_router` and `response_router` are handlers of such links, `transforms` annotates and rewrites, `link_context`
says what is done with reply addresses, and `announcements` which receivers get annotations. May use `amqp`, `response`,
`state.counters` and the protocols of `nodes`.
"""
