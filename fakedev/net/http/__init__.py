"""HTTP as every port has it: connections, requests, resources, responses, and their limits."""
