"""The realized object: the submitted one with defaults and without secrets (CE 3.2.4.1). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bridges.cloudevents.model.values import AmqpSettings, HttpSettings, Json, MqttSettings, ProtocolSettings
from bridges.cloudevents.subscription.credential import MEMBER, SECRET_MEMBERS
from bridges.cloudevents.subscription.settings.http import SECRET_HEADERS


def realized(value: Mapping[str, Json], id: str, settings: ProtocolSettings) -> dict[str, Json]:
    """The object that every operation returns; equal for an object and its realized form."""
    found: dict[str, Json] = {"id": id, **masked(value)}
    found["id"] = id
    given = found.get("protocolsettings")
    defaults = _defaults(settings)
    if defaults or "protocolsettings" in found:
        found["protocolsettings"] = {**(given if isinstance(given, dict) else {}), **_missing(given, defaults)}
    return found


def masked(value: Mapping[str, Json]) -> dict[str, Json]:
    """A copy without the secrets: members of the credential left out, values of secret headers null."""
    found = dict(value)
    if isinstance(credential := found.get(MEMBER), dict):
        found[MEMBER] = {name: item for name, item in credential.items() if name not in SECRET_MEMBERS}
    settings = found.get("protocolsettings")
    if isinstance(settings, dict) and isinstance(headers := settings.get(SECRET_HEADERS), dict):
        found["protocolsettings"] = {**settings, SECRET_HEADERS: dict.fromkeys(headers)}
    return found


def _missing(given: Json, defaults: dict[str, Json]) -> dict[str, Json]:
    return {name: item for name, item in defaults.items() if not isinstance(given, dict) or name not in given}


def _defaults(settings: ProtocolSettings) -> dict[str, Json]:
    """The specification's defaults (CE 3.2.2)."""
    if isinstance(settings, HttpSettings):
        return {"method": settings.method}
    if isinstance(settings, MqttSettings):
        return {"qos": settings.qos, "retain": settings.retain}
    return {"sendersettlementmode": "unsettled"} if isinstance(settings, AmqpSettings) else {}
