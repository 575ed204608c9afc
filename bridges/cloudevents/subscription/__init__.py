"""The subscription object: parsed, checked, realized and masked (CE 3.2.1 to 3.2.3). Pure."""
