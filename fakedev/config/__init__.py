"""The whole configuration of a program: its files, environment variables and options, to one frozen value.

Start with `keys.py` (all sections), `configuration.py` (their values) and `load.py` (reads and checks them).
`overrides.py` has ``--set`` and ``FAKEDEV__`` variables, and `export.py` the JSON Schema and reference tables. Touch
the outside: `options.py` (command line), `start.py` (clock, environment) and `sample_page.py` (environment).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("options", "sample_page", "start")
