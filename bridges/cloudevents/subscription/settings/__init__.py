"""The member `protocolsettings` of a subscription, one module per protocol (CE 3.2.2). Pure."""
