"""Data, not code: device types and identities, as YAML."""
