"""Tests of who has which device, and how healthy it is."""
