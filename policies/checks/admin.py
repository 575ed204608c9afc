"""Checks of the admin API's section: some caller can log in, and tokens are not sent without TLS."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model.admin import AdminSection
from policies.model.gateway import GatewaySection
from policies.parts.parts import PolicyPart
from policies.text.diagnostics import Diagnostic, Loc
from policies.values.hosts import is_loopback


def check_admin(gateway: PolicyPart[GatewaySection] | None) -> Iterator[Diagnostic]:
    """Mistakes between the keys of `gateway.admin`."""
    if gateway is None or not gateway.ok("admin"):
        return
    admin, loc = gateway.value.admin, (*gateway.loc, "admin")
    if admin.ports:
        yield from _ports(admin, loc)
    elif admin.tls is not None or admin.tokens or admin.certificates:
        text = "tls, tokens and certificates apply only to a port, and listen has no host:port"
        yield Diagnostic(loc, text, at_key=True, warning=True)
    if admin.tls is not None and admin.tls.require_client_cert and admin.tls.client_ca is None:
        text = "needs client_ca, the trusted certificate authorities"
        yield Diagnostic((*loc, "tls", "require_client_cert"), text)


def _ports(admin: AdminSection, loc: Loc) -> Iterator[Diagnostic]:
    if not admin.tokens and not admin.certificates:
        text = "nobody could use this port: add tokens (`scopegate keys new` makes one), or certificates"
        yield Diagnostic((*loc, "listen"), text)
    if admin.certificates and (admin.tls is None or admin.tls.client_ca is None):
        text = "needs tls with client_ca, the trusted certificate authorities"
        yield Diagnostic((*loc, "certificates"), text, at_key=True)
    exposed = [each for each in admin.ports if not is_loopback(each.host)]
    if exposed and admin.tls is None and not admin.allow_tokens_without_tls:
        text = f"{exposed[0]} is not a loopback address: add tls, or allow_tokens_without_tls: true"
        yield Diagnostic((*loc, "listen"), text)
