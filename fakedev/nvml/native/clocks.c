/* The clocks of a board, and those that it supports. */
#include "session.h"

/* The clock of graphics, SM, memory or video. */
static int64_t clock_of(const struct board *board, unsigned type, int is_max)
{
    if (type < 2)
        return is_max ? board->core_clock_max : board->core_clock;
    if (type == 2)
        return is_max ? board->memory_clock_max : board->memory_clock;
    return is_max ? board->video_clock_max : board->video_clock;
}

static nvmlReturn_t give_clock(nvmlDevice_t device, unsigned type, int is_max, unsigned *clock)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(type > 3, device, &found);
    return result ? result : give(clock_of(&found.board, type, is_max), clock);
}

NVML_API nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *clock)
{
    return give_clock(device, type, 0, clock);
}

NVML_API nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *clock)
{
    return give_clock(device, type, 1, clock);
}

NVML_API nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, unsigned type, unsigned *clock)
{
    return give_clock(device, type, 1, clock);
}

/* The current clock, or the highest boost; clocks of applications are not simulated. */
NVML_API nvmlDeviceGetClock(nvmlDevice_t device, unsigned type, unsigned id, unsigned *clock)
{
    if (id > 3)
        return INVALID_ARGUMENT;
    nvmlReturn_t result = give_clock(device, type, id == 3, clock);
    return result ? result : id == 1 || id == 2 ? NOT_SUPPORTED : SUCCESS;
}

NVML_API nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned *count, unsigned *clocks)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!count, device, &found);
    if (result)
        return result;
    if (found.board.memory_clock_max == ABSENT)
        return NOT_SUPPORTED;
    unsigned room = *count;
    *count = found.board.memory_clock_min == found.board.memory_clock_max || found.board.memory_clock_min <= 0 ? 1 : 2;
    if (room < *count)
        return INSUFFICIENT_SIZE;
    if (!clocks)
        return INVALID_ARGUMENT;
    clocks[0] = (unsigned)found.board.memory_clock_max;
    if (*count == 2)
        clocks[1] = (unsigned)found.board.memory_clock_min;
    return SUCCESS;
}

NVML_API nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memory, unsigned *count, unsigned *clocks)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (result)
        return result;
    const struct board *board = &found.board;
    if (!count)
        return INVALID_ARGUMENT;
    if (board->core_clock_max == ABSENT || board->core_clock_min == ABSENT || board->clock_step < 1000)
        return NOT_SUPPORTED;
    if (memory != board->memory_clock_max && memory != board->memory_clock_min)
        return NOT_FOUND;
    unsigned room = *count, step = (unsigned)(board->clock_step / 1000);
    int64_t span = board->core_clock_max - board->core_clock_min;
    *count = span < 0 ? 1 : (unsigned)(span / step) + 1;
    if (room < *count)
        return INSUFFICIENT_SIZE;
    if (!clocks)
        return INVALID_ARGUMENT;
    for (unsigned number = 0; number < *count; number++)
        clocks[number] = (unsigned)board->core_clock_max - number * step;
    return SUCCESS;
}
