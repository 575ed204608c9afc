"""The parts of a policy that are valid by themselves, and the errors of the others as sentences. Pure."""
