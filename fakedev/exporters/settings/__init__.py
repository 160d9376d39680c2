"""Files of identities, their releases and counters: from YAML to the identities that pages show."""
