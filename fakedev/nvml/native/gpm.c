/* GPM: how much of its engines a board or an instance uses. The values are those of a tick: no two samples are needed. */
#include <stdlib.h>
#include <strings.h>

#include "session.h"

#define GPM_VERSION 1

struct gpm_sample {
    int64_t engine, sm, occupancy, tensor, bandwidth, fp64, fp32, fp16, pcie_sent, pcie_received;
};

static int has_gpm(const struct board *board)
{
    return strcasecmp(board->architecture, "hopper") == 0 || strcasecmp(board->architecture, "blackwell") == 0;
}

NVML_API nvmlGpmQueryDeviceSupport(nvmlDevice_t device, version_and_value_t *support)
{
    struct device found;
    if (support && support->version != GPM_VERSION)
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(has_gpm(&found.board), support ? &support->value : NULL);
}

NVML_API nvmlGpmSampleAlloc(struct gpm_sample **sample)
{
    if (!sample)
        return INVALID_ARGUMENT;
    *sample = calloc(1, sizeof **sample);
    return *sample ? SUCCESS : NO_MEMORY;
}

NVML_API nvmlGpmSampleFree(struct gpm_sample *sample)
{
    if (!sample)
        return INVALID_ARGUMENT;
    free(sample);
    return SUCCESS;
}

NVML_API nvmlGpmSampleGet(nvmlDevice_t device, struct gpm_sample *sample)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!sample, device, &found);
    if (result)
        return result;
    const struct board *board = &found.board;
    if (!has_gpm(board))
        return NOT_SUPPORTED;
    *sample = (struct gpm_sample){
        board->engine_active, board->sm_active, board->sm_occupancy, board->tensor_active, board->memory_bandwidth,
        board->fp64_active, board->fp32_active, board->fp16_active, board->pcie_sent, board->pcie_received,
    };
    return SUCCESS;
}

NVML_API nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpu_instance, struct gpm_sample *sample)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!sample, device, &found);
    if (result)
        return result;
    if (!has_gpm(&found.board))
        return NOT_SUPPORTED;
    unsigned index = found.index;
    int count = (int)found.board.part_count;
    for (int number = 0; number < count; number++) {
        if ((result = read_part_at(index, (unsigned)number, &found)))
            return result;
        const struct part *part = &found.part;
        if (part->gpu_instance != gpu_instance)
            continue;
        *sample = (struct gpm_sample){
            part->engine_active, part->sm_active, part->sm_occupancy, part->tensor_active, part->memory_bandwidth,
            part->fp64_active, part->fp32_active, part->fp16_active, ABSENT, ABSENT,
        };
        return SUCCESS;
    }
    return NOT_FOUND;
}

/* A metric by its number: shares in parts of a million, traffic in bytes a second. */
static int64_t metric_of(const struct gpm_sample *sample, unsigned id)
{
    switch (id) {
    case 1: return sample->engine;
    case 2: return sample->sm;
    case 3: return sample->occupancy;
    case 5: return sample->tensor;
    case 10: return sample->bandwidth;
    case 11: return sample->fp64;
    case 12: return sample->fp32;
    case 13: return sample->fp16;
    case 20: return sample->pcie_sent;
    case 21: return sample->pcie_received;
    default: return ABSENT;
    }
}

NVML_API nvmlGpmMetricsGet(gpm_request_t *request)
{
    if (!request || !request->second || request->count > 1000)
        return INVALID_ARGUMENT;
    if (request->version != GPM_VERSION)
        return VERSION_MISMATCH;
    for (unsigned number = 0; number < request->count; number++) {
        gpm_metric_t *metric = &request->metrics[number];
        int64_t value = metric_of(request->second, metric->id);
        double per_unit = metric->id >= 20 ? 1048576.0 : 10000.0; /* MiB/s, or percent */
        metric->result = value == ABSENT ? NOT_SUPPORTED : SUCCESS;
        metric->value = value == ABSENT ? 0.0 : (double)value / per_unit;
    }
    return SUCCESS;
}
