"""The web tree: metrics pages, health, metrics of fakedev itself, the web page and its stream."""
