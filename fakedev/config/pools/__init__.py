"""Pools of the fleet: their keys, their nodes, their churn."""
