"""Fleets in other people's tests: a service in a process of its own, or a simulation in the test's process.

Start with `order.py` (what fleet a test asks for). `served_fleet.py` is a service in its own process, `simulation.py`
a fleet without sockets, and `in_reactor.py` a service in the test's own reactor. All modules touch the outside, e.g.
processes and disk. See doc/testing.md.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("in_reactor", "order", "served_fleet", "simulation")
