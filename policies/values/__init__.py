"""Values of a policy and the types that all its sections share: units, addresses, hosts, patterns, strict models."""
