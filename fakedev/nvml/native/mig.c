/* Boards that are divided into instances (MIG). */
#include "session.h"

NVML_API nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (!result && !found.board.max_part_count)
        result = NOT_SUPPORTED;
    if (!result)
        result = give(found.board.mig_mode, current);
    return result ? result : give(found.board.mig_mode, pending);
}

NVML_API nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    return result ? result : give(found.is_part, is_mig);
}

NVML_API nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(found.board.max_part_count, count);
}

NVML_API nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance)
{
    struct device found, part;
    nvmlReturn_t result = read_board(device, &found);
    if (result)
        return result;
    if (!found.board.max_part_count)
        return NOT_SUPPORTED;
    if (!instance)
        return INVALID_ARGUMENT;
    for (unsigned place = 0; place < (uint64_t)found.board.part_count; place++) {
        if ((result = read_part_at(found.index, place, &part)))
            return result;
        if (part.is_mig_device && !index--) {
            *instance = handle_of(found.index, part.part.gpu_instance);
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

NVML_API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance, nvmlDevice_t *device)
{
    struct device found;
    nvmlReturn_t result = read_part(instance, &found);
    if (result)
        return result == NOT_SUPPORTED ? INVALID_ARGUMENT : result;
    if (!device)
        return INVALID_ARGUMENT;
    *device = handle_of(found.index, -1);
    return SUCCESS;
}

NVML_API nvmlDeviceGetGpuInstanceId(nvmlDevice_t instance, unsigned *id)
{
    struct device found;
    nvmlReturn_t result = read_part(instance, &found);
    return result ? result : give(found.part.gpu_instance, id);
}

/* Each GPU instance has one compute instance. */
NVML_API nvmlDeviceGetComputeInstanceId(nvmlDevice_t instance, unsigned *id)
{
    struct device found;
    nvmlReturn_t result = read_part(instance, &found);
    return result ? result : give(0, id);
}

/* The structure has no way to say that a number is not known. */
static unsigned known(int64_t number)
{
    return number == ABSENT ? 0 : (unsigned)number;
}

NVML_API nvmlDeviceGetAttributes_v2(nvmlDevice_t instance, attributes_t *attributes)
{
    struct device found;
    nvmlReturn_t result = read_part(instance, &found);
    if (result)
        return result;
    if (!attributes)
        return INVALID_ARGUMENT;
    const struct part *part = &found.part;
    *attributes = (attributes_t){
        .multiprocessors = known(part->multiprocessors), .copy_engines = known(part->copy_engines),
        .decoders = known(part->decoders), .encoders = known(part->encoders), .jpeg = known(part->jpeg_engines),
        .ofa = known(part->ofa_engines), .gpu_slices = known(part->slices), .compute_slices = known(part->slices),
        .memory_mb = part->memory_total == ABSENT ? 0 : (unsigned long long)part->memory_total >> 20,
    };
    return SUCCESS;
}

NVML_API nvmlDeviceGetAttributes(nvmlDevice_t instance, attributes_t *attributes)
{
    return nvmlDeviceGetAttributes_v2(instance, attributes);
}
