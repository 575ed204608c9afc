"""`protocolsettings` of a subscription, one protocol per module (CE 3.2.2). Pure."""
