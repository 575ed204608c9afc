"""SASL mechanisms of listeners and connectors (`sasl`)."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema

from policies.values.base import upper

MECHANISMS: Final = ("ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})

Mechanism = Annotated[
    Literal["ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512"],
    BeforeValidator(upper),
    WithJsonSchema({"type": "string", "enum": [*(name.lower() for name in MECHANISMS), *MECHANISMS]}),
]
PLAIN_DESCRIPTION: Final = "true: allow PLAIN on connections without TLS, where anybody on the path reads the password"
"""Description of the key `allow_plain_without_tls`."""
