"""YAML and JSON files to the frozen specifications that the pure rooms define."""
