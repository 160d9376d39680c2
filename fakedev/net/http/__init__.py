"""HTTP for all ports: connections, requests, resources, responses, and their limits."""
