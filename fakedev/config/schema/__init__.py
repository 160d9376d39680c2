"""The engine of the configuration: nodes with places, sections, types, problems."""
