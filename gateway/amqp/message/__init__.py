"""Encoded messages: where their sections lie, read and edited without decoding the rest (part 3, 3.2). Pure."""
