"""What goes over sockets: HTTP, lines, TLS."""
