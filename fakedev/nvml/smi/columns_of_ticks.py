"""Fields of ``--query-gpu`` that change from tick to tick: clocks, memory, usage, temperatures, power."""

from __future__ import annotations

from typing import Final

from fakedev.nvml.smi import values
from fakedev.nvml.smi.columns import Column
from fakedev.nvml.smi.values import absent, deprecated, hundredths, mib, microseconds, reason, usage, whole

#: Reasons for lower clocks: the name, its bit, and what it means.
REASONS: Final = (
    ("gpu_idle", 0x1, "nothing runs"),
    ("applications_clocks_setting", 0x2, "somebody has set the clocks"),
    ("sw_power_cap", 0x4, "the power limit"),
    ("hw_slowdown", 0x8, "the hardware protects itself"),
    ("hw_thermal_slowdown", 0x40, "the hardware protects itself from heat"),
    ("hw_power_brake_slowdown", 0x80, "the power supply asks for it"),
    ("sw_thermal_slowdown", 0x20, "the driver protects the board from heat"),
    ("sync_boost", 0x10, "other boards of its group"),
)
_COUNTERS: Final = (
    ("sw_power_cap", "throttled_power"),
    ("sync_boost", "throttled_sync_boost"),
    ("sw_thermal_slowdown", "throttled_thermal"),
    ("hw_thermal_slowdown", "throttled_hardware_heat"),
    ("hw_power_brake_slowdown", "throttled_hardware_brake"),
)
_EVENT, _THROTTLE = "clocks_event_reasons", "clocks_throttle_reasons"
_SMOOTHING: Final = (
    *(("delayed_power_smoothing_supported", ""), ("primary_power_floor", "W"), ("secondary_power_floor", "W")),
    *(("min_primary_floor_activation_offset", "W"), ("min_primary_floor_activation_point", "W")),
    *(("window_multiplier", "ms"), ("curr_profile.secondary_power_floor", "W")),
    ("curr_profile.primary_floor_act_window_multiplier", ""),
    ("curr_profile.primary_floor_tar_window_multiplier", ""),
    *(("curr_profile.primary_floor_act_offset", "W"), ("admin_override.secondary_power_floor", "W")),
    ("admin_override.primary_floor_act_window_multiplier", ""),
    ("admin_override.primary_floor_tar_window_multiplier", ""),
    ("admin_override.primary_floor_act_offset", "W"),
)

PERFORMANCE: Final = (
    Column("fan.speed", whole("fan_speed"), "Speed of the fan, of its highest.", "%"),
    Column("pstate", values.performance_state, "Performance state, P0 to P12."),
    Column(f"{_EVENT}.supported", values.hexadecimal("clock_reasons_supported", 16),
           "Mask of the reasons for lower clocks that there are.", aliases=(f"{_THROTTLE}.supported",)),
    Column(f"{_EVENT}.active", values.hexadecimal("throttle_reasons", 16),
           "Mask of the present reasons for lower clocks.", aliases=(f"{_THROTTLE}.active",)),
    *(
        Column(f"{_EVENT}.{name}", reason(bit), f"Whether clocks are lower because of this: {doc}.",
               aliases=(f"{_THROTTLE}.{name}",))
        for name, bit, doc in REASONS
    ),
    *(
        Column(f"{_EVENT}_counters.{name}", microseconds(field), "How long clocks were lower because of this.", "us")
        for name, field in _COUNTERS
    ),
    Column("memory.total", mib("memory_total"), "Memory of the board.", "MiB"),
    Column("memory.reserved", mib("memory_reserved"), "Of that, for the driver.", "MiB"),
    Column("memory.used", mib("memory_used"), "Of that, in use.", "MiB"),
    Column("memory.free", mib("memory_free"), "Of that, free.", "MiB"),
    Column("compute_mode", values.one_of("compute_mode", values.COMPUTE_MODES), "Which programs may use the board."),
    Column("compute_cap", values.compute_capability, "Compute capability."),
    *(
        Column(f"utilization.{name}", usage(field), f"Share of the time in which {doc} worked; none in MIG mode.", "%")
        for name, field, doc in (
            ("gpu", "usage", "the board"), ("memory", "memory_usage", "the memory"),
            ("encoder", "encoder_usage", "the encoders"), ("decoder", "decoder_usage", "the decoders"),
            ("jpeg", "jpeg_usage", "the JPEG engines"), ("ofa", "ofa_usage", "the optical flow engines"),
        )
    ),
    *(
        Column(f"encoder.stats.{name}", values.while_none("0", "encoder_usage"),
               f"{doc}: known while encoders are idle.")
        for name, doc in (
            ("sessionCount", "Sessions of encoders"), ("averageFps", "Frames a second"),
            ("averageLatency", "Delay of frames in us"),
        )
    ),
    Column("dramEncryption.mode.current", absent, "Whether the memory is encrypted: not simulated."),
    Column("dramEncryption.mode.pending", absent, "Whether the memory is encrypted: not simulated."),
)  # fmt: skip

_MODULE: Final = (
    *(("power.draw.average", ()), ("power.draw.instant", ())),
    *(("power.limit", ("module.power.requested_limit",)), ("enforced.power.limit", ("module.power.current_limit",))),
    *(("power.default_limit", ()), ("power.min_limit", ()), ("power.max_limit", ())),
)

POWER_AND_CLOCKS: Final = (
    Column("temperature.gpu", whole("temperature"), "Temperature of the board in degrees Celsius."),
    Column("temperature.gpu.tlimit", whole("temperature_margin"), "Degrees to the temperature at which clocks fall."),
    Column("temperature.memory", whole("memory_temperature"), "Temperature of the memory in degrees Celsius."),
    Column("power.management", deprecated, "Not of this driver any more."),
    Column("power.draw", hundredths("power_shown"), "Power of the board.", "W"),
    Column("power.draw.average", hundredths("power_shown"), "Power of the board.", "W", ("gpu.power.draw.average",)),
    Column("power.draw.instant", hundredths("power_shown"), "Power of the board.", "W", ("gpu.power.draw.instant",)),
    Column("power.limit", hundredths("power_limit", 1000), "Power limit.", "W", ("gpu.power.requested_limit",)),
    Column("enforced.power.limit", hundredths("power_limit", 1000), "Power limit.", "W", ("gpu.power.current_limit",)),
    Column("power.default_limit", hundredths("power_limit_default", 1000), "Power limit as delivered.", "W",
           ("gpu.power.default_limit",)),
    Column("power.min_limit", hundredths("power_limit_min", 1000), "Lowest power limit.", "W",
           ("gpu.power.min_limit",)),
    Column("power.max_limit", hundredths("power_limit_max", 1000), "Highest power limit.", "W",
           ("gpu.power.max_limit",)),
    *(
        Column(f"module.{name}", absent, "Of modules with a CPU: not simulated.", "W", aliases)
        for name, aliases in _MODULE
    ),
    *(Column(f"power_smoothing.{name}", absent, "Power smoothing: not simulated.", unit) for name, unit in _SMOOTHING),
    Column("edpp_multiplier", hundredths("edpp_multiplier", 1), "Limit for peaks of power.", "%"),
    Column("clocks.current.graphics", whole("core_clock"), "Clock of graphics.", "MHz", ("clocks.gr",)),
    Column("clocks.current.sm", whole("core_clock"), "Clock of the multiprocessors.", "MHz", ("clocks.sm",)),
    Column("clocks.current.memory", whole("memory_clock"), "Clock of the memory.", "MHz", ("clocks.mem",)),
    Column("clocks.current.video", whole("video_clock"), "Clock of encoders and decoders.", "MHz", ("clocks.video",)),
    *(
        Column(f"clocks.{group}.{name}", deprecated, "Not of this driver any more.", "MHz",
               (f"clocks.{group}.{alias}",))
        for group in ("applications", "default_applications")
        for name, alias in (("graphics", "gr"), ("memory", "mem"))
    ),
    Column("clocks.max.graphics", whole("core_clock_max"), "Highest clock of graphics.", "MHz", ("clocks.max.gr",)),
    Column("clocks.max.sm", whole("core_clock_max"), "Highest clock of the multiprocessors.", "MHz"),
    Column("clocks.max.memory", whole("memory_clock_max"), "Highest clock of the memory.", "MHz", ("clocks.max.mem",)),
)  # fmt: skip
