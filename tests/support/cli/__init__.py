"""Commands of `scopegate` as people call them."""
