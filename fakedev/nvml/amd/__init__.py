"""AMD's Python module ``amdsmi`` and its command ``amd-smi`` for simulated boards, from the file for NVML.

They need the standard library alone, as ``nvidia-smi`` does: ``library.py`` of this room's parent writes a folder with
a module that finds this package.
"""
