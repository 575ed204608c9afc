"""HTTP for the clients of a scope (policy key `api`): TLS, logins and limits of its listeners.

Knows no application: whoever offers one mounts it at a path, and gets requests of users who have logged in. The
operator's port is another one (`gateway.observability.http`).
"""
