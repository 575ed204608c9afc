"""Peers, clients, frames and messages of AMQP."""
