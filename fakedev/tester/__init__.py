"""Load plans and request statistics. Pure. Empty until the tester is built."""
