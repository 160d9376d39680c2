"""NVIDIA's driver for simulated boards: the NVML library, the file that it reads, and the command nvidia-smi.

Start with `records.py`, the layout of the file. `image.py` makes the bytes of a tick, and `smi/` is nvidia-smi. Touch
the outside: `part.py` (the service that writes the file; clock, socket), `map_file.py` (disk), and `library.py` (runs
the compiler).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "library", "map_file", "nvml_mock", "part", "smi/boards", "smi/fields", "smi/main", "smi/options", "smi/queries",
    "smi/report", "smi/tables",
)
