/* Errors that a board has counted: ECC, retired pages, remapped rows. */
#include "session.h"

enum { CORRECTED = 0, UNCORRECTED = 1 };
enum { DRAM = 2, SRAM = 7, LOCATIONS = 8 };

static nvmlReturn_t ecc_board(nvmlDevice_t device, struct device *found)
{
    nvmlReturn_t result = read_board(device, found);
    return result ? result : found->board.ecc_mode == 0 ? NOT_SUPPORTED : SUCCESS;
}

/* A sum of numbers that may be absent: absent if the first is. */
static int64_t plus(int64_t one, int64_t other)
{
    return one == ABSENT || other == ABSENT ? one : one + other;
}

NVML_API nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter, unsigned long long *count)
{
    struct device found;
    nvmlReturn_t result = ecc_board(device, &found);
    const struct board *board = &found.board;
    if (!result && (type > UNCORRECTED || counter > 1))
        result = INVALID_ARGUMENT;
    if (result)
        return result;
    return give_long(type == CORRECTED ? plus(board->memory_corrected, board->cache_corrected)
                                       : plus(board->memory_uncorrected, board->cache_uncorrected), count);
}

NVML_API nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter, unsigned location,
                                         unsigned long long *count)
{
    struct device found;
    nvmlReturn_t result = ecc_board(device, &found);
    const struct board *board = &found.board;
    if (!result && (type > UNCORRECTED || counter > 1 || location >= LOCATIONS))
        result = INVALID_ARGUMENT;
    if (result)
        return result;
    int64_t cache = type == CORRECTED ? board->cache_corrected : board->cache_uncorrected;
    if (location == DRAM)
        return give_long(type == CORRECTED ? board->memory_corrected : board->memory_uncorrected, count);
    /* Errors of the cache are not simulated by place. */
    return give_long(location == SRAM ? cache : cache ? ABSENT : 0, count);
}

NVML_API nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, unsigned type, unsigned counter, ecc_counts_t *counts)
{
    struct device found;
    nvmlReturn_t result = ecc_board(device, &found);
    const struct board *board = &found.board;
    if (!result && (type > UNCORRECTED || counter > 1 || !counts))
        result = INVALID_ARGUMENT;
    if (result)
        return result;
    *counts = (ecc_counts_t){0};
    if (type == CORRECTED ? board->cache_corrected : board->cache_uncorrected)
        return NOT_SUPPORTED;
    return give_long(type == CORRECTED ? board->memory_corrected : board->memory_uncorrected, &counts->memory);
}

NVML_API nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, sram_status_t *status)
{
    struct device found;
    if (status && status->version != VERSION_OF(sram_status_t, 1))
        return VERSION_MISMATCH;
    nvmlReturn_t result = ecc_board(device, &found);
    if (result)
        return result;
    if (!status)
        return INVALID_ARGUMENT;
    if (found.board.cache_uncorrected)
        return NOT_SUPPORTED;
    *status = (sram_status_t){.version = status->version};
    result = give_long(found.board.cache_corrected, &status->aggregate_corrected);
    status->volatile_corrected = status->aggregate_corrected;
    return result;
}

/* 0: by many single-bit errors; 1: by a double-bit error. The addresses are made up. */
static nvmlReturn_t retired_pages(nvmlDevice_t device, unsigned cause, unsigned *count, unsigned long long *addresses,
                                  unsigned long long *times)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(cause > 1 || !count, device, &found);
    if (result)
        return result;
    int64_t pages = cause ? found.board.retired_double_bit : found.board.retired_single_bit;
    unsigned room = *count;
    if ((result = give(pages, count)) || !*count)
        return result;
    if (room < *count)
        return INSUFFICIENT_SIZE;
    if (!addresses)
        return INVALID_ARGUMENT;
    for (unsigned page = 0; page < *count; page++) {
        addresses[page] = (page + 1ULL) << 16;
        if (times)
            times[page] = 0;
    }
    return SUCCESS;
}

NVML_API nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count, unsigned long long *addresses)
{
    return retired_pages(device, cause, count, addresses, 0);
}

NVML_API nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause, unsigned *count,
                                      unsigned long long *addresses, unsigned long long *times)
{
    return retired_pages(device, cause, count, addresses, times);
}

NVML_API nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned *is_pending)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (!result && found.board.retired_double_bit == ABSENT)
        result = NOT_SUPPORTED;
    return result ? result : give(found.board.retired_pending, is_pending);
}

NVML_API nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected, unsigned *is_pending,
                                   unsigned *has_failed)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (!result)
        result = give(found.board.remapped_corrected, corrected);
    if (!result)
        result = give(found.board.remapped_uncorrected, uncorrected);
    if (!result)
        result = give(found.board.remap_pending, is_pending);
    return result ? result : give(found.board.remap_failure, has_failed);
}

/* Which banks have rows remapped is not simulated: known while there are none. */
NVML_API nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, histogram_t *histogram)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!histogram, device, &found);
    if (result)
        return result;
    *histogram = (histogram_t){0};
    if (found.board.remapped_corrected || found.board.remapped_uncorrected)
        return NOT_SUPPORTED;
    return give(found.board.remap_banks, &histogram->max);
}
