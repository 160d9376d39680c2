/* Field values: many quantities of a board in one call, by number. */
#include "session.h"

enum { TYPE_UNSIGNED = 1, TYPE_LONG_LONG = 3, TYPE_SIGNED = 5 };
#define ALL_LINKS 0xFFFFFFFFu

static int64_t plus(int64_t one, int64_t other)
{
    return one == ABSENT || other == ABSENT ? one : one + other;
}

static int64_t divided(int64_t number, int64_t by)
{
    return number == ABSENT ? ABSENT : number / by;
}

/* How much warmer than a temperature the board may get: limits relative to where heat takes clock away. */
static int64_t margin(const struct board *board, int64_t temperature)
{
    return temperature == ABSENT || board->slowdown_temperature == ABSENT ? ABSENT
                                                                           : board->slowdown_temperature - temperature;
}

/* The values of links: of one of them, which scope names, or of all. */
static int64_t of_links(nvmlDevice_t device, const struct board *board, const field_t *field)
{
    struct device found;
    struct link link;
    if (!board->link_count)
        return field->id == 91 ? 0 : ABSENT;
    switch (field->id) {
    case 90: case 164: return divided(board->link_bandwidth, 1000000);
    case 91: return board->link_count;
    case 138: case 140: return field->scope == ALL_LINKS ? divided(board->fabric_sent, 1024) : ABSENT;
    case 139: case 141: return field->scope == ALL_LINKS ? divided(board->fabric_received, 1024) : ABSENT;
    case 165: return read_link(device, field->scope, &found, &link) ? ABSENT : link.up;
    case 166: return board->link_generation;
    case 202: return field->scope == ALL_LINKS ? board->fabric_sent : ABSENT;
    case 204: return field->scope == ALL_LINKS ? board->fabric_received : ABSENT;
    case 38: case 45: return board->link_errors;
    case 59: case 162: return board->link_recoveries;
    default: return ABSENT;
    }
}

static int64_t value_of(nvmlDevice_t device, const struct board *board, const field_t *field, unsigned *type)
{
    *type = TYPE_UNSIGNED;
    switch (field->id) {
    case 1: case 2: return board->ecc_mode;
    case 82: return board->memory_temperature;
    case 92: return board->retired_single_bit == ABSENT ? ABSENT : 0;
    case 93: return board->retired_double_bit == ABSENT ? ABSENT : board->retired_pending;
    case 94: return board->pcie_replays;
    case 142: return board->remapped_corrected;
    case 143: return board->remapped_uncorrected;
    case 144: return board->remap_pending;
    case 145: return board->remap_failure;
    case 185: case 186: return field->scope == 1 ? board->memory_power : field->scope ? ABSENT : board->power;
    case 187: return board->power_limit_min;
    case 188: return board->power_limit_max;
    case 189: return board->power_limit_default;
    case 190: case 192: return board->power_limit;
    case 230: return board->recovery_action;
    }
    *type = TYPE_SIGNED;
    switch (field->id) {
    case 193: return margin(board, board->shutdown_temperature);
    case 194: return margin(board, board->hardware_slowdown_temperature);
    case 196: return margin(board, board->slowdown_temperature);
    }
    *type = TYPE_LONG_LONG;
    switch (field->id) {
    case 3: case 5: return plus(board->memory_corrected, board->cache_corrected);
    case 4: case 6: return plus(board->memory_uncorrected, board->cache_uncorrected);
    case 11: case 22: return board->memory_corrected;
    case 12: case 23: return board->memory_uncorrected;
    case 29: return board->retired_single_bit;
    case 30: return board->retired_double_bit;
    case 31: return board->retired_double_bit == ABSENT ? ABSENT : board->retired_pending;
    case 74: return board->throttled_power;
    case 75: return board->throttled_thermal;
    case 76: return board->throttled_sync_boost;
    case 83: case 191: return board->energy;
    case 269: return board->throttled_thermal;
    case 270: return board->throttled_hardware_heat;
    case 271: return board->throttled_hardware_brake;
    }
    return of_links(device, board, field);
}

NVML_API nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, field_t *fields)
{
    struct device found;
    struct slot_head slot;
    nvmlReturn_t result = read_board_and_slot(count < 0 || (count && !fields), device, &found, &slot);
    if (result)
        return result;
    for (int number = 0; number < count; number++) {
        field_t *field = &fields[number];
        int64_t value = value_of(device, &found.board, field, &field->type);
        field->time = slot.wall_time;
        field->latency = 0;
        field->result = value == ABSENT ? NOT_SUPPORTED : SUCCESS;
        field->value.ull = value == ABSENT ? 0 : (unsigned long long)value;
    }
    return SUCCESS;
}
