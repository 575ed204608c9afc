"""Tests that time could break, run again and again beside a busy loop: `make races`."""
