"""What filters say of an event's place in its log: where reading begins and ends (ES 5.1, 5.2). Pure."""
