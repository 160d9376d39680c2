"""``fakedev clone``: the program, and its conversation with a Prometheus."""
