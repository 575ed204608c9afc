"""The subscription object: parsed, checked against the policy, explained and stored (CE 3.2.1 to 3.2.3). Pure.

`parse` reads an object with every mistake in it; `settings` has the protocol settings, one module per protocol;
`policy_check` says what the policy does not allow. The room uses `model`, `events` for filters, and `policies`.
"""
