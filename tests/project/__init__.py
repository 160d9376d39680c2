"""The project itself: architecture, packages, deployment."""
