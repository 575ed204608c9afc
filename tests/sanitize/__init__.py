"""The C modules under AddressSanitizer and UndefinedBehaviorSanitizer."""
