"""How fakedev talks to an API server: requests, watches, the lease of a shard, and the paths and permissions.

Start with `api_client.py`. Only `api_paths.py` does not touch the outside.
"""
