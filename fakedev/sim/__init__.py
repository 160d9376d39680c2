"""The fleet: specifications, state, workloads, events. Pure: no reactor, socket or clock."""
