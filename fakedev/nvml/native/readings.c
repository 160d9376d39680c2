/* What a board does: usage, memory, clocks, power, temperatures, fan, PCIe, and modes. */
#include <string.h>

#include "session.h"

#define GET(name, expression)                                \
    name(nvmlDevice_t device, unsigned *out)                 \
    {                                                        \
        struct device found;                                 \
        nvmlReturn_t result = read_board(device, &found);    \
        const struct board *board = &found.board;            \
        return result ? result : give((expression), out);    \
    }

NVML_API GET(nvmlDeviceGetPowerUsage, board->power)
NVML_API GET(nvmlDeviceGetPowerManagementLimit, board->power_limit)
NVML_API GET(nvmlDeviceGetEnforcedPowerLimit, board->power_limit)
NVML_API GET(nvmlDeviceGetPowerManagementDefaultLimit, board->power_limit_default)
NVML_API GET(nvmlDeviceGetPowerManagementMode, board->power_limit == ABSENT ? ABSENT : 1)
NVML_API GET(nvmlDeviceGetPerformanceState, board->performance_state)
NVML_API GET(nvmlDeviceGetPowerState, board->performance_state)
NVML_API GET(nvmlDeviceGetPowerSource, board->power == ABSENT ? ABSENT : 0)
NVML_API GET(nvmlDeviceGetPersistenceMode, board->persistence_mode)
NVML_API GET(nvmlDeviceGetComputeMode, board->compute_mode)
NVML_API GET(nvmlDeviceGetDisplayActive, board->display_active)
NVML_API GET(nvmlDeviceGetDisplayMode, board->display_attached)
NVML_API GET(nvmlDeviceGetAccountingMode, board->accounting_mode)
NVML_API GET(nvmlDeviceGetAccountingBufferSize, board->accounting_buffer_size)
NVML_API GET(nvmlDeviceGetMinorNumber, board->minor_number)
NVML_API GET(nvmlDeviceGetNumaNodeId, board->gpu_numa_node)
NVML_API GET(nvmlDeviceGetCurrPcieLinkGeneration, board->pcie_generation)
NVML_API GET(nvmlDeviceGetMaxPcieLinkGeneration, board->pcie_generation_max)
NVML_API GET(nvmlDeviceGetGpuMaxPcieLinkGeneration, board->pcie_generation_max)
NVML_API GET(nvmlDeviceGetPcieLinkMaxSpeed, board->pcie_generation_max)
NVML_API GET(nvmlDeviceGetCurrPcieLinkWidth, board->pcie_width)
NVML_API GET(nvmlDeviceGetMaxPcieLinkWidth, board->pcie_width_max)
NVML_API GET(nvmlDeviceGetPcieReplayCounter, board->pcie_replays)
NVML_API GET(nvmlDeviceGetFanSpeed, board->fan_speed)
NVML_API GET(nvmlDeviceGetNumFans, board->fan_speed == ABSENT ? 0 : 1)
/* 2.5, 5, 8, 16, 32 and 64 GT/s. */
NVML_API GET(nvmlDeviceGetPcieSpeed, board->pcie_generation < 1 || board->pcie_generation > 8 ? ABSENT
             : board->pcie_generation < 3 ? 2500 * board->pcie_generation : 8000LL << (board->pcie_generation - 3))

NVML_API nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *speed)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (!result && found.board.fan_speed != ABSENT && fan)
        result = INVALID_ARGUMENT;
    return result ? result : give(found.board.fan_speed, speed);
}

NVML_API nvmlDeviceGetTargetFanSpeed(nvmlDevice_t device, unsigned fan, unsigned *speed)
{
    return nvmlDeviceGetFanSpeed_v2(device, fan, speed);
}

NVML_API nvmlDeviceGetUtilizationRates(nvmlDevice_t device, utilization_t *rates)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!rates, device, &found);
    if (result)
        return result;
    if (found.board.mig_mode == 1)
        return NOT_SUPPORTED;
    result = give(found.board.usage, &rates->gpu);
    if (!result && give(found.board.memory_usage, &rates->memory))
        rates->memory = 0;
    return result;
}

/* The share of the time in which a kind of engine works, and the time it is measured over. */
static nvmlReturn_t engine_usage(nvmlReturn_t result, const struct device *found, int64_t usage, unsigned *out, unsigned *period)
{
    if (result)
        return result;
    if (!period)
        return INVALID_ARGUMENT;
    *period = 1000000;
    return found->board.mig_mode == 1 ? NOT_SUPPORTED : give(usage, out);
}

#define GET_ENGINE(name, field)                                                   \
    name(nvmlDevice_t device, unsigned *usage, unsigned *period)                  \
    {                                                                             \
        struct device found;                                                      \
        nvmlReturn_t result = read_board(device, &found);                         \
        return engine_usage(result, &found, found.board.field, usage, period);    \
    }

NVML_API GET_ENGINE(nvmlDeviceGetEncoderUtilization, encoder_usage)
NVML_API GET_ENGINE(nvmlDeviceGetDecoderUtilization, decoder_usage)
NVML_API GET_ENGINE(nvmlDeviceGetJpgUtilization, jpeg_usage)
NVML_API GET_ENGINE(nvmlDeviceGetOfaUtilization, ofa_usage)

/* Sessions of encoders are not simulated: there are none while the encoders are idle. */
NVML_API nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned *sessions, unsigned *fps, unsigned *latency)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!sessions || !fps || !latency, device, &found);
    if (result)
        return result;
    *sessions = *fps = *latency = 0;
    return found.board.encoder_usage ? NOT_SUPPORTED : SUCCESS;
}

NVML_API nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned *count, void *sessions)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    (void)sessions;
    return result ? result : found.board.encoder_usage ? NOT_SUPPORTED : give(0, count);
}

NVML_API nvmlDeviceGetFBCStats(nvmlDevice_t device, fbc_stats_t *stats)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!stats, device, &found);
    if (!result)
        *stats = (fbc_stats_t){0};
    return result;
}

NVML_API nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned *count, void *sessions)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    (void)sessions;
    return result ? result : give(0, count);
}

/* The memory of a board or instance; used with_reserved or without. */
static nvmlReturn_t memory_of(nvmlDevice_t device, memory_v2_t *memory)
{
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    if (result)
        return result;
    const struct board *board = &found.board;
    const struct part *part = &found.part;
    if (!(result = give_long(found.is_part ? part->memory_total : board->memory_total, &memory->total)) &&
        !(result = give_long(found.is_part ? part->memory_used : board->memory_used, &memory->used)))
        result = give_long(found.is_part ? part->memory_free : board->memory_free, &memory->free);
    if (!result && give_long(found.is_part ? part->memory_reserved : board->memory_reserved, &memory->reserved))
        memory->reserved = 0;
    return result;
}

NVML_API nvmlDeviceGetMemoryInfo(nvmlDevice_t device, memory_t *memory)
{
    memory_v2_t whole;
    nvmlReturn_t result = memory_of(device, &whole);
    if (result)
        return result;
    if (!memory)
        return INVALID_ARGUMENT;
    *memory = (memory_t){whole.total, whole.free, whole.used + whole.reserved};
    return SUCCESS;
}

NVML_API nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, memory_v2_t *memory)
{
    memory_v2_t whole = {0};
    if (memory && memory->version != VERSION_OF(memory_v2_t, 2))
        return VERSION_MISMATCH;
    nvmlReturn_t result = memory_of(device, &whole);
    if (result)
        return result;
    if (!memory)
        return INVALID_ARGUMENT;
    whole.version = memory->version;
    *memory = whole;
    return SUCCESS;
}

NVML_API nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, bar1_t *memory)
{
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    if (result || !memory)
        return result ? result : INVALID_ARGUMENT;
    if ((result = give_long(found.is_part ? found.part.bar1_total : found.board.bar1_total, &memory->total)))
        return result;
    memory->used = found.is_part ? 0 : (unsigned long long)found.board.bar1_used;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

NVML_API nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, memory_t *memory)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!memory, device, &found);
    if (result)
        return result;
    if ((result = give_long(found.board.protected_memory, &memory->total)))
        return result;
    memory->free = memory->total;
    memory->used = 0;
    return SUCCESS;
}

#define GET_LONG(name, field)                                                   \
    name(nvmlDevice_t device, unsigned long long *out)                          \
    {                                                                           \
        struct device found;                                                    \
        nvmlReturn_t result = read_board(device, &found);                       \
        return result ? result : give_long(found.board.field, out);             \
    }

NVML_API GET_LONG(nvmlDeviceGetTotalEnergyConsumption, energy)
NVML_API GET_LONG(nvmlDeviceGetCurrentClocksEventReasons, throttle_reasons)
NVML_API GET_LONG(nvmlDeviceGetCurrentClocksThrottleReasons, throttle_reasons)
NVML_API GET_LONG(nvmlDeviceGetSupportedClocksEventReasons, clock_reasons_supported)
NVML_API GET_LONG(nvmlDeviceGetSupportedClocksThrottleReasons, clock_reasons_supported)

NVML_API nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned policy, violation_t *status)
{
    struct device found;
    struct slot_head slot;
    nvmlReturn_t result = read_board_and_slot(!status || policy > 11, device, &found, &slot);
    if (result)
        return result;
    const struct board *board = &found.board;
    status->reference = (unsigned long long)(slot.wall_time - (board->created == ABSENT ? 0 : board->created));
    return give_long(policy == 0 ? board->throttled_power : policy == 1 ? board->throttled_thermal
                     : policy == 2 ? board->throttled_sync_boost : ABSENT, &status->violation);
}

NVML_API nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *low, unsigned *high)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (!result)
        result = give(found.board.power_limit_min, low);
    return result ? result : give(found.board.power_limit_max, high);
}

NVML_API nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *temperature)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(sensor, device, &found);
    return result ? result : give(found.board.temperature, temperature);
}

NVML_API nvmlDeviceGetTemperatureV(nvmlDevice_t device, temperature_t *temperature)
{
    if (temperature && temperature->version != VERSION_OF(temperature_t, 1))
        return VERSION_MISMATCH;
    return nvmlDeviceGetTemperature(device, temperature ? temperature->sensor : 0,
                                    temperature ? (unsigned *)&temperature->temperature : NULL);
}

NVML_API nvmlDeviceGetMarginTemperature(nvmlDevice_t device, margin_t *margin)
{
    struct device found;
    if (margin && margin->version != VERSION_OF(margin_t, 1))
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board(device, &found);
    if (!result && found.board.has_margin != 1)
        result = NOT_SUPPORTED;
    return result ? result : give(found.board.temperature_margin, margin ? (unsigned *)&margin->margin : NULL);
}

NVML_API nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned type, unsigned *temperature)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(type > 7, device, &found);
    if (result)
        return result;
    const int64_t thresholds[] = {
        found.board.shutdown_temperature, found.board.hardware_slowdown_temperature,
        found.board.memory_max_operating, found.board.slowdown_temperature,
    };
    return give(type < 4 ? thresholds[type] : ABSENT, temperature);
}

/* In KB of 1024 bytes a second: 0 sent, 1 received. */
NVML_API nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter, unsigned *value)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(counter > 1, device, &found);
    if (result)
        return result;
    int64_t bytes = counter ? found.board.pcie_received : found.board.pcie_sent;
    return give(bytes == ABSENT ? ABSENT : (bytes + 512) / 1024, value);
}

#define GET_MODE(name, field)                                                  \
    name(nvmlDevice_t device, unsigned *current, unsigned *other)              \
    {                                                                          \
        struct device found;                                                   \
        nvmlReturn_t result = read_board(device, &found);                      \
        if (!result)                                                           \
            result = give(found.board.field, current);                         \
        return result ? result : give(found.board.field, other);               \
    }

NVML_API GET_MODE(nvmlDeviceGetEccMode, ecc_mode)
NVML_API GET_MODE(nvmlDeviceGetGspFirmwareMode, gsp_mode)

NVML_API nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, unsigned *mode)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(found.board.ecc_mode == ABSENT ? ABSENT : 1, mode);
}

NVML_API nvmlDeviceGetAddressingMode(nvmlDevice_t device, version_and_value_t *mode)
{
    struct device found;
    if (mode && mode->version != VERSION_OF(version_and_value_t, 1))
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(found.board.addressing_mode, mode ? &mode->value : NULL);
}

/* NVML_DEV_CAP_EGM: memory of the system as memory of the board, off on all (NVIDIA's captures of GB200 and GB300). */
NVML_API nvmlDeviceGetCapabilities(nvmlDevice_t device, version_and_value_t *capabilities)
{
    struct device found;
    if (capabilities && capabilities->version != VERSION_OF(version_and_value_t, 1))
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(0, capabilities ? &capabilities->value : NULL);
}

NVML_API nvmlDeviceGetPdi(nvmlDevice_t device, pdi_t *pdi)
{
    struct device found;
    if (pdi && pdi->version != VERSION_OF(pdi_t, 1))
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give_long(found.board.pdi, pdi ? &pdi->value : NULL);
}

NVML_API nvmlDeviceGetRepairStatus(nvmlDevice_t device, repair_t *status)
{
    struct device found;
    if (status && status->version != VERSION_OF(repair_t, 1))
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board_unless(!status, device, &found);
    if (result)
        return result;
    if (found.board.remap_pending == ABSENT)
        return NOT_SUPPORTED;
    status->channel = status->tpc = 0;
    return SUCCESS;
}

NVML_API GET(nvmlDeviceGetModuleId, board->platform_module_id)
NVML_API GET(nvmlDeviceGetC2cModeInfoV, board->c2c_mode)

/* One value of the present tick: power, usages, clocks. */
NVML_API nvmlDeviceGetSamples(nvmlDevice_t device, unsigned type, unsigned long long last_seen, unsigned *value_type,
                              unsigned *count, sample_t *samples)
{
    struct device found;
    struct slot_head slot;
    nvmlReturn_t result = read_board(device, &found);
    if (!result)
        result = read_slot_head(&slot);
    if (result)
        return result;
    const int64_t values[] = {
        found.board.power, found.board.usage, found.board.memory_usage, found.board.encoder_usage,
        found.board.decoder_usage, found.board.core_clock, found.board.memory_clock, ABSENT,
        found.board.jpeg_usage, found.board.ofa_usage,
    };
    if (!value_type || !count || type >= sizeof values / sizeof *values)
        return INVALID_ARGUMENT;
    if (values[type] == ABSENT)
        return NOT_SUPPORTED;
    unsigned room = samples ? *count : 1;
    *value_type = 1;
    *count = 1;
    if (!samples)
        return SUCCESS;
    if ((unsigned long long)slot.wall_time <= last_seen)
        return NOT_FOUND;
    if (!room)
        return INSUFFICIENT_SIZE;
    *samples = (sample_t){.time = (unsigned long long)slot.wall_time, .value = {.ui = (unsigned)values[type]}};
    return SUCCESS;
}
