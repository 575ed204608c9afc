"""TLS and SASL between the gateway and a Kafka cluster (`kafka.<name>.security`).

`security_settings` translates them to librdkafka settings. Other mechanisms, such as Kerberos, are configured in
`client`.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from policies.values.base import Also, Flag, Path, Secret, StrictSection, upper

KAFKA_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
OAUTH: Final = "OAUTHBEARER"
SECURITY_SETTINGS: Final = frozenset(
    {
        "security.protocol",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "enable.ssl.certificate.verification",
        "https.ca.location",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
    }
)
"""The librdkafka settings that are derived from `security`."""


def _switch(value: object) -> object:
    """Refuse an empty `tls:`, which must not mean "none": its author wants TLS, or left it unfinished."""
    if value is None:
        raise ValueError("must be true (the system's authorities) or {ca: file}")
    return {} if value is True else None if value is False else value


class KafkaTls(StrictSection):
    """TLS to the brokers, with the gateway's own certificate if they require one (mutual TLS)."""

    ca: Path | None = Field(default=None, description="certificate authorities of the brokers, PEM; default: the "
        "system's")
    cert: Path | None = Field(default=None, description="own certificate chain, PEM")
    key: Path | None = Field(default=None, description="private key of the own certificate, PEM")
    key_password: Secret | None = Field(default=None, description="where the password of the private key is found")
    verify: Flag = Field(
        default=True, description="false: accept any certificate of any broker; for experiments only"
    )


KafkaMechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
    BeforeValidator(upper),
    WithJsonSchema({"type": "string", "enum": [*(name.lower() for name in KAFKA_MECHANISMS), *KAFKA_MECHANISMS]}),
]


class KafkaSasl(StrictSection):
    """How the gateway logs in to the brokers."""

    mechanism: KafkaMechanism = Field(default="SCRAM-SHA-512", description="SASL mechanism")
    user: str | None = Field(default=None, min_length=1, description="user name; with oauthbearer the client id")
    password: Secret | None = Field(
        default=None, description="where the password is found; with oauthbearer the client secret"
    )
    token_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s]+$",
        description="oauthbearer: where tokens are fetched with client id and secret (OpenID Connect)",
    )
    scope: str | None = Field(default=None, min_length=1, description="oauthbearer: scope to request")


_SWITCH_SCHEMA = {"type": "boolean"}


class KafkaSecurity(StrictSection):
    """TLS and login; settings that are not given are not used."""

    tls: Annotated[KafkaTls | None, BeforeValidator(_switch), Also(lambda _: [_SWITCH_SCHEMA])] = Field(
        default=None, description="true, or see KafkaTls; default: no TLS"
    )
    sasl: KafkaSasl | None = Field(default=None, description="see KafkaSasl; default: no login")
    allow_plain_without_tls: Flag = Field(
        default=False,
        description="true: send a password or token without TLS, where anybody on the path reads it",
    )

    @property
    def files(self) -> Iterator[tuple[tuple[str, str], str]]:
        """Every file, with its keys in this section."""
        for key in ("ca", "cert", "key"):
            if (name := getattr(self.tls, key, None)) is not None:
                yield ("tls", key), name

    @property
    def secrets(self) -> Iterator[tuple[tuple[str, str], Secret]]:
        """Every secret, with its keys in this section."""
        if self.tls is not None and self.tls.key_password is not None:
            yield ("tls", "key_password"), self.tls.key_password
        if self.sasl is not None and self.sasl.password is not None:
            yield ("sasl", "password"), self.sasl.password


def security_settings(
    security: KafkaSecurity, path: Callable[[str], str], secret: Callable[[Secret], str]
) -> dict[str, str]:
    """The librdkafka settings; `path` finds a file of the policy, `secret` a secret's value."""
    protocol = ("sasl_" if security.sasl else "") + ("ssl" if security.tls else "plaintext")
    found = {"security.protocol": protocol}
    if (tls := security.tls) is not None:
        names = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
        found |= {names[key]: path(name) for (_, key), name in security.files}
        if tls.key_password is not None:
            found["ssl.key.password"] = secret(tls.key_password)
        if not tls.verify:
            found["enable.ssl.certificate.verification"] = "false"
    return found | (_sasl(security.sasl, path, security, secret) if security.sasl else {})


def _sasl(
    sasl: KafkaSasl, path: Callable[[str], str], security: KafkaSecurity, secret: Callable[[Secret], str]
) -> dict[str, str]:
    found: dict[str, str] = {"sasl.mechanism": sasl.mechanism}
    password = secret(sasl.password) if sasl.password is not None else ""
    if sasl.mechanism != OAUTH:
        return {**found, "sasl.username": sasl.user or "", "sasl.password": password}
    found |= {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": sasl.token_url or ""}
    found |= {"sasl.oauthbearer.client.id": sasl.user or "", "sasl.oauthbearer.client.secret": password}
    if sasl.scope is not None:
        found["sasl.oauthbearer.scope"] = sasl.scope
    if security.tls is not None and security.tls.ca is not None:
        found["https.ca.location"] = path(security.tls.ca)
    return found
