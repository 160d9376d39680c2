"""The web tree: metrics pages, health, our own metrics, the web page and its stream."""
