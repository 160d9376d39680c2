"""NVIDIA's driver for simulated boards: the NVML library, the file that it reads, the commands nvidia-smi and dcgmi.

AMD's module amdsmi and its command amd-smi read the same file. Start with `records.py`, the layout of the file.
`image.py` makes the bytes of a tick, and `smi/` has both commands, `amd/` what is AMD's. `kernel_log.py` has what the
driver writes into the kernel's log. Touch the outside: `part.py` (the service that writes the file; clock, socket),
`divisions.py` (instances that programs make; threads), `map_file.py` (disk), `kernel_log_file.py` (the service that
writes the log), and `library.py` (runs the compiler).
"""

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = (
    "amd/amd_sections", "amd/amd_smi", "amd/amd_tables", "amd/amdsmi", "amd/gpu", "amd/ras_command", "amd/readings",
    "divisions", "kernel_log_file", "library", "map_file", "nvml_mock", "part", "smi/boards", "smi/dcgmi", "smi/fields",
    "smi/main", "smi/mig_changes", "smi/options", "smi/queries", "smi/report", "smi/tables",
)
