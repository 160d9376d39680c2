"""Common ground of all rooms: errors, units, names, statistics, plots, console output.

Start with `errors.py` (errors and did-you-mean) and `units.py` (durations, sizes), `names.py`. `histograms.py` has
histograms and quantiles, `steps.py` divides long work, `groups.py` puts values together by a key, `given_files.py`
reads files that anybody may have made, `environment.py` the ``FAKEDEV_`` variables of the environment. Touch the
outside: `console.py` (standard output and error) and `atomic_files.py` (disk).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("atomic_files", "console")
