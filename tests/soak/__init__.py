"""`make soak`: draw the next thing to try until the time is up, and stop at the first failure (`__main__`)."""
