"""What the tests share: gateways, peers, clients, servers, generated messages, and plugins of pytest."""
