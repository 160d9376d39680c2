"""The scalability tester: load plans, statistics of requests, expectations, reports. Pure."""
