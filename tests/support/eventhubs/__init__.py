"""A gateway with a listener for clients of Azure Event Hubs, and what tests of it need."""
