/* Field values: many quantities of a board in one call, by number. */
#include "session.h"

enum { TYPE_DOUBLE = 0, TYPE_UNSIGNED = 1, TYPE_LONG_LONG = 3, TYPE_SIGNED = 5 };
#define ALL_LINKS 0xFFFFFFFFu
enum { HOPPER = 9, DATA_CENTRE_BLACKWELL = 10, NVLINK_5 = 5 };

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
    return board->has_margin != 1 || temperature == ABSENT || board->slowdown_temperature == ABSENT ? ABSENT
                                                                           : board->slowdown_temperature - temperature;
}

/* A counter whose places are not simulated: known while it is 0. */
static int64_t if_none(int64_t number)
{
    return number == 0 ? 0 : ABSENT;
}

/* The link that a field of NVLink 1 to 3 is for, by its number from the first of six, and those of six more; -1: none. */
static int link_of(unsigned id, unsigned first, unsigned more)
{
    return id >= first && id < first + 6 ? (int)(id - first) : id >= more && id < more + 6 ? (int)(id - more) + 6 : -1;
}

/* A counter of 32 bits, which begins anew. */
static int64_t wrapped(int64_t number)
{
    return number == ABSENT ? ABSENT : number & 0xFFFFFFFF;
}

/* The speed of a link to a Grace CPU, as nvidia-smi c2c -s shows it. */
enum { C2C_MBPS = 44712 };

/* Fields of PCIe and of C2C. Each repeated transfer was answered with a NAK, and is an error that was corrected (chosen). */
static int64_t of_bus(const struct board *board, unsigned id)
{
    switch (id) {
    case 170: return board->c2c_links;
    case 171: return board->c2c_mode == 1 ? 1 : ABSENT;
    case 172: return board->c2c_mode == 1 ? C2C_MBPS : ABSENT;
    case 173: case 174: return board->pcie_replays;
    case 175: case 176: case 177: case 178: case 179: case 180: case 181: case 182: case 183:
        return board->pcie_replays == ABSENT ? ABSENT : 0;
    case 197: return wrapped(board->pcie_sent_total);
    case 198: return wrapped(board->pcie_received_total);
    default: return ABSENT;
    }
}

/* Fields that have a number for each link. */
static int64_t of_old_links(const struct board *board, unsigned id)
{
    int64_t value = ABSENT, link;
    if (board->link_generation > 3)
        return ABSENT;
    if ((link = link_of(id, 32, 96)) >= 0 || (link = link_of(id, 39, 102)) >= 0)
        value = if_none(board->link_errors);
    else if ((link = link_of(id, 46, 108)) >= 0 || (link = link_of(id, 53, 114)) >= 0)
        value = if_none(board->link_recoveries);
    else if ((link = link_of(id, 84, 132)) >= 0)
        value = divided(board->link_bandwidth, 1000000);
    return link < board->link_count ? value : ABSENT;
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
    case 146: return read_link(device, field->scope, &found, &link) ? ABSENT : link.remote_number;
    case 147: return read_link(device, 0, &found, &link) ? ABSENT : link.switch_number == ABSENT ? 0 : board->link_count;
    case 165: return read_link(device, field->scope, &found, &link) ? ABSENT : link.up;
    case 166: return board->link_generation;
    case 167: return 0; /* at full speed */
    case 38: case 45: return board->link_errors;
    case 59: case 162: return board->link_recoveries;
    case 52: case 161: return if_none(board->link_recoveries);
    case 160: case 163: return if_none(board->link_errors);
    }
    if (board->link_generation < NVLINK_5)
        return of_old_links(board, field->id);
    switch (field->id) {
    case 202: return field->scope == ALL_LINKS ? board->fabric_sent : ABSENT;
    case 204: return field->scope == ALL_LINKS ? board->fabric_received : ABSENT;
    case 205: case 206: case 207: case 209: case 210: case 211: case 212: case 214: return 0;
    case 208: case 219: case 221: return field->scope == ALL_LINKS ? board->link_errors : if_none(board->link_errors);
    case 213: case 215: return field->scope == ALL_LINKS ? board->link_recoveries : if_none(board->link_recoveries);
    default: return ABSENT;
    }
}

/* Whether the id is one of power smoothing, which needs a privilege that is given out of band. */
static int is_smoothing(unsigned id)
{
    return (id >= 251 && id <= 268) || (id >= 275 && id <= 288) || id == 300 || id == 309;
}

/* Power smoothing, where it is on: with the highest privilege, and its settings in the first preset profile. */
static int64_t of_smoothing(const struct board *board, const field_t *field, unsigned *type)
{
    if (board->smoothing_floor == ABSENT)
        return ABSENT;
    *type = TYPE_UNSIGNED;
    switch (field->id) {
    case 251: case 253: return 1; /* enabled; the hysteresis counts */
    case 252: return 2;
    case 254: return divided(board->power_limit, 1000);
    case 255: return board->smoothing_floor;
    case 259: return 5; /* NVML_POWER_SMOOTHING_MAX_NUM_PROFILES */
    case 264: return 0;
    case 265: case 266: case 267: case 268: return 0xFFFFFFFF; /* NVML_POWER_SMOOTHING_ADMIN_OVERRIDE_NOT_SET */
    }
    if (field->scope != 0)
        return ABSENT;
    switch (field->id) {
    case 261: return board->smoothing_ramp_up;
    case 262: return board->smoothing_ramp_down;
    case 263: return board->smoothing_hysteresis;
    }
    *type = TYPE_DOUBLE; /* percent, in hundredths */
    switch (field->id) {
    case 256: return 10000; /* the range of smoothing-floor */
    case 257: return 0;
    case 260: return board->smoothing_share;
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
    case 95: return board->pcie_replays == ABSENT ? ABSENT : 0;
    case 142: return board->remapped_corrected;
    case 143: return board->remapped_uncorrected;
    case 144: return board->remap_pending;
    case 145: return board->remap_failure;
    case 184: return !board->max_part_count ? ABSENT : board->compute_major >= HOPPER;
    case 199: return board->max_part_count ? 1 : ABSENT;
    case 226: case 227: return board->recovery_action == ABSENT ? ABSENT : 0;
    case 228: return board->atomics_outbound;
    case 229: return board->atomics_inbound;
    case 274: return board->edpp_multiplier;
    case 301: case 302: return board->remap_pending == ABSENT ? ABSENT : 0;
    case 305: return board->remapped_corrected || board->remapped_uncorrected ? ABSENT : board->remap_banks;
    case 306: return board->remapped_corrected || board->remapped_uncorrected ? ABSENT : 0;
    case 307: return board->remap_pending;
    case 308: return board->temperature;
    case 185: if (field->scope == 0 && board->has_average_power != 1) return ABSENT; /* fall through */
    case 186: return field->scope == 2 ? board->module_power : field->scope == 1 ? board->memory_power : field->scope ? ABSENT : board->power;
    case 187: return board->power_limit_min;
    case 188: return board->power_limit_max;
    case 189: return board->power_limit_default;
    case 190: case 192: return board->power_limit;
    case 230: return board->recovery_action;
    }
    if (is_smoothing(field->id))
        return of_smoothing(board, field, type);
    if ((field->id >= 170 && field->id <= 183) || field->id == 197 || field->id == 198)
        return of_bus(board, field->id);
    *type = TYPE_SIGNED;
    switch (field->id) {
    case 193: return margin(board, board->shutdown_temperature);
    case 195: return board->has_margin != 1 || board->memory_max_operating == ABSENT ? ABSENT : 0;
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
        int is_refused = is_smoothing(field->id) && found.board.compute_major == DATA_CENTRE_BLACKWELL
                         && found.board.smoothing_floor == ABSENT;
        field->result = value != ABSENT ? SUCCESS : is_refused ? NO_PERMISSION : NOT_SUPPORTED;
        field->value.ull = value == ABSENT ? 0 : (unsigned long long)value;
        if (field->type == TYPE_DOUBLE)
            field->value.d = (double)field->value.ull / 100;
    }
    return SUCCESS;
}
