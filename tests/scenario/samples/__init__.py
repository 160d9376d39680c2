"""Tests of the samples of a run."""
