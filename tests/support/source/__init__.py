"""The project's own source: modules, mutants, steps of regular expressions."""
