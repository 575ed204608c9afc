"""Links whose messages go to many nodes, and how messages change on their way from one scope to another.

`message_router` and `response_router` are handlers of such links, `transforms` annotates and rewrites, and
`announcements` says which receivers get annotations. May use `amqp`, `links`, `response` and `state.counters`.
"""
