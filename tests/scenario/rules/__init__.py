"""Tests of alert rules, dashboards and the programs that judge them."""
