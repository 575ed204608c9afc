"""HTTP for the clients of a scope (policy key `api`): TLS, logins and limits of its listeners.

This package contains no application. Applications are mounted at paths and receive the requests of authenticated users.
The operator's HTTP port is in `gateway.observability.http`.
"""
