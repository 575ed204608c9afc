"""From a policy file's text to a checked `Policy`, with every mistake and its place."""
