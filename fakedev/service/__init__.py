"""The program that serves a fleet: its parts are put together, started, reloaded and stopped here.

Start with `service.py`, which makes all parts and lists them. `fleet_part.py` makes the fleet with its clock and its
files, `reload.py` applies a changed configuration, and `exporter_program.py` is ``fakedev-exporter``. All modules but
`program_run.py` touch the outside: reactor, environment, standard error.
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("exporter_program", "fleet_part", "options", "reload", "saved_fleet", "service")
