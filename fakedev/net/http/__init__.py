"""HTTP: the guard that every port has, requests, responses, bodies."""
