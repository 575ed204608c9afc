"""The subscription manager: the operations of the CloudEvents Subscriptions API over HTTP and AMQP (CE 3.2.4 to 3.4).

`manager` has the operations, `bindings` takes them to HTTP and AMQP, `registry` has the subscriptions that this process
knows. The room uses `subscription` for objects, `gateway.state.subscriptions` as the store, and delivery and sinks only
through the protocols in `interfaces`.
"""
