"""What a fleet is, as frozen values: device types, profiles, fault kinds, quantities, limits. Imports no NumPy."""
