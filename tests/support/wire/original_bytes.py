"""What the original's programs put on the wire, to the byte: facts/originals/WIRE.md."""

from __future__ import annotations

from collections.abc import Sequence


def go_workload(
    activities: Sequence[tuple[float, float, float]], devices: Sequence[str] = ("card0",), repeat: int = 2
) -> bytes:
    """What the original's workload client sends: indented by tabs, and no LF at the end."""
    profile = ",\n".join(
        f'\t\t{{\n\t\t\t"Load": {load},\n\t\t\t"Fluctuation": {fluctuation},\n\t\t\t"Seconds": {seconds}\n\t\t}}'
        for load, fluctuation, seconds in activities
    )
    names = ",\n".join(f'\t\t"{device}"' for device in devices)
    return (
        f'{{\n\t"Name": "load-10-5min",\n\t"Repeat": {repeat},\n\t"Profile": [\n{profile}\n\t],\n'
        f'\t"Devices": [\n{names}\n\t],\n\t"Limits": null\n}}'
    ).encode()
