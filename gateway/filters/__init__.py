"""AMQP filters: languages to predicates, predicates against messages, one index for many (FX). Pure."""
