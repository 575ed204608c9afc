"""`protocolsettings` of a subscription, a protocol a module (CE 3.2.2). Pure."""
