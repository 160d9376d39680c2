"""Tests of the container image, which they build and run."""
