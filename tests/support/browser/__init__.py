"""Pages as a browser shows them: headless Chromium, for one look or for a person who does things."""
