/* GPU instances and compute instances (MIG): what kinds there are, and what a board is divided into. */
#include <stdio.h>
#include <string.h>

#include "session.h"

enum { GPU_INSTANCE = 1, COMPUTE_INSTANCE = 2 };
/* NVML_GPU_INSTANCE_PROFILE_COUNT, and NVML_COMPUTE_INSTANCE_PROFILE_COUNT. */
enum { GPU_PROFILES = 0x12, COMPUTE_PROFILES = 9 };
/* Compute slices by NVML_COMPUTE_INSTANCE_PROFILE; the numbers of these profiles in tables are their places. */
static const unsigned compute_slices[] = {1, 2, 3, 4, 7};
/* More are those of a damaged file. */
#define MOST_SLICES 64
#define COMPUTE_KINDS (sizeof compute_slices / sizeof *compute_slices)

/* The structure has no way to say that a number is not known. */
static unsigned known(int64_t number)
{
    return number == ABSENT ? 0 : (unsigned)number;
}

/* A board in MIG mode. */
static nvmlReturn_t read_divided(nvmlDevice_t device, struct device *found)
{
    nvmlReturn_t result = read_board(device, found);
    return result ? result : found->board.max_part_count && found->board.mig_mode == 1 ? SUCCESS : NOT_SUPPORTED;
}

/* The kind of instance with a number: of those of NVML's interface, or of those that tables show. */
static nvmlReturn_t find_profile(nvmlDevice_t device, int is_kind, unsigned number, struct device *found, struct profile *profile)
{
    nvmlReturn_t result = read_board(device, found);
    if (result)
        return result;
    if (!found->board.max_part_count)
        return NOT_SUPPORTED;
    if (is_kind && number >= GPU_PROFILES)
        return INVALID_ARGUMENT;
    for (unsigned place = 0; !(result = read_profile(found, place, profile)); place++)
        if ((is_kind ? profile->kind : profile->number) == number)
            return SUCCESS;
    return result == NOT_FOUND ? is_kind ? NOT_SUPPORTED : INVALID_ARGUMENT : result;
}

static gpu_profile_t values_of(const struct profile *profile)
{
    return (gpu_profile_t){
        (unsigned)profile->number, 0, (unsigned)profile->slices, (unsigned)profile->most, known(profile->multiprocessors),
        known(profile->copy_engines), known(profile->decoders), known(profile->encoders), known(profile->jpeg_engines),
        known(profile->ofa_engines), (unsigned long long)profile->memory >> 20,
    };
}

NVML_API nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned kind, gpu_profile_t *info)
{
    struct device found;
    struct profile profile;
    nvmlReturn_t result = find_profile(device, 1, kind, &found, &profile);
    if (result || !info)
        return result ? result : INVALID_ARGUMENT;
    *info = values_of(&profile);
    return SUCCESS;
}

static nvmlReturn_t give_versioned(nvmlDevice_t device, int is_kind, unsigned number, void *info)
{
    struct device found;
    struct profile profile;
    unsigned version = info ? *(unsigned *)info : 0;
    if (!info)
        return INVALID_ARGUMENT;
    if (version != VERSION_OF(gpu_profile_v2_t, 2) && version != VERSION_OF(gpu_profile_v3_t, 3))
        return VERSION_MISMATCH;
    nvmlReturn_t result = find_profile(device, is_kind, number, &found, &profile);
    if (result)
        return result;
    gpu_profile_t values = values_of(&profile);
    if (version == VERSION_OF(gpu_profile_v2_t, 2)) {
        gpu_profile_v2_t *second = info;
        *second = (gpu_profile_v2_t){
            version, values.id, 0, values.slices, values.instances, values.multiprocessors, values.copy_engines,
            values.decoders, values.encoders, values.jpeg, values.ofa, values.memory_mb, "",
        };
        snprintf(second->name, sizeof second->name, "MIG %s", profile.name);
    } else {
        gpu_profile_v3_t *third = info;
        *third = (gpu_profile_v3_t){
            version, values.id, values.slices, values.instances, values.multiprocessors, values.copy_engines,
            values.decoders, values.encoders, values.jpeg, values.ofa, values.memory_mb, "", 0,
        };
        snprintf(third->name, sizeof third->name, "MIG %s", profile.name);
    }
    return SUCCESS;
}

NVML_API nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned kind, void *info)
{
    return give_versioned(device, 1, kind, info);
}

NVML_API nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned number, void *info)
{
    return give_versioned(device, 0, number, info);
}

NVML_API nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned number, placement_t *places, unsigned *count)
{
    struct device found;
    struct profile profile;
    nvmlReturn_t result = find_profile(device, 0, number, &found, &profile);
    if (result || !count)
        return result ? result : INVALID_ARGUMENT;
    unsigned room = places ? *count : 0;
    *count = 0;
    for (unsigned begin = 0; begin < 63; begin++) {
        if (!(profile.begins >> begin & 1))
            continue;
        if (*count < room)
            places[*count] = (placement_t){begin, (unsigned)profile.memory_slices};
        ++*count;
    }
    return places && *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

NVML_API nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned number, placement_t *places, unsigned *count)
{
    return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, number, places, count);
}

/* How many more instances of a kind the board has room for. */
NVML_API nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned number, unsigned *count)
{
    struct device found, part;
    struct profile profile;
    nvmlReturn_t result = find_profile(device, 0, number, &found, &profile);
    if (!result && found.board.mig_mode != 1)
        result = NOT_SUPPORTED;
    if (result || !count)
        return result ? result : INVALID_ARGUMENT;
    uint64_t taken = 0;
    int64_t left = found.board.max_part_count, same = profile.most, places = 0;
    for (unsigned place = 0; place < (uint64_t)found.board.part_count; place++) {
        if ((result = read_part_at(found.index, place, &part)))
            return result;
        uint64_t size = (uint64_t)part.part.memory_slices & 63, begin = (uint64_t)part.part.begin & 63;
        taken |= ((1ULL << size) - 1) << begin;
        left -= part.part.slices;
        same -= part.part.number == profile.number;
    }
    uint64_t size = (uint64_t)profile.memory_slices & 63;
    for (unsigned begin = 0; begin < 63; begin++)
        places += profile.begins >> begin & 1 && !(taken & ((1ULL << size) - 1) << begin);
    if (profile.slices > 0 && left / profile.slices < places)
        places = left / profile.slices;
    places = same < places ? same : places;
    return give(places < 0 ? 0 : places, count);
}

NVML_API nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned number, nvmlGpuInstance_t *instances, unsigned *count)
{
    struct device found, part;
    struct profile profile;
    nvmlReturn_t result = find_profile(device, 0, number, &found, &profile);
    if (!result && found.board.mig_mode != 1)
        result = NOT_SUPPORTED;
    if (result || !count || !instances)
        return result ? result : INVALID_ARGUMENT;
    /* The caller's array has room for as many as a board can have. */
    *count = 0;
    for (unsigned place = 0; place < (uint64_t)found.board.part_count; place++) {
        if ((result = read_part_at(found.index, place, &part)))
            return result;
        if (part.part.number == number && *count < profile.most)
            instances[(*count)++] = instance_handle(GPU_INSTANCE, found.index, part.part.gpu_instance);
    }
    return SUCCESS;
}

NVML_API nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *instance)
{
    struct device found, part;
    nvmlReturn_t result = read_divided(device, &found);
    if (result || !instance)
        return result ? result : INVALID_ARGUMENT;
    for (unsigned place = 0; place < (uint64_t)found.board.part_count; place++) {
        if ((result = read_part_at(found.index, place, &part)))
            return result;
        if (part.part.gpu_instance == id) {
            *instance = instance_handle(GPU_INSTANCE, found.index, id);
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

NVML_API nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, gpu_instance_t *info)
{
    struct device found;
    nvmlReturn_t result = read_instance_handle(instance, GPU_INSTANCE, &found);
    if (result || !info)
        return result ? result : INVALID_ARGUMENT;
    *info = (gpu_instance_t){
        handle_of(found.index, -1), (unsigned)found.part.gpu_instance, (unsigned)found.part.number,
        {(unsigned)found.part.begin, (unsigned)found.part.memory_slices},
    };
    return SUCCESS;
}

/* The compute instances that a GPU instance can have, by their NVML_COMPUTE_INSTANCE_PROFILE. */
static nvmlReturn_t find_compute(nvmlGpuInstance_t instance, unsigned kind, struct device *found, compute_profile_t *profile)
{
    nvmlReturn_t result = read_instance_handle(instance, GPU_INSTANCE, found);
    if (result)
        return result;
    if (kind >= COMPUTE_PROFILES)
        return INVALID_ARGUMENT;
    const struct part *part = &found->part;
    if (kind >= COMPUTE_KINDS || compute_slices[kind] > part->slices || part->slices > MOST_SLICES)
        return NOT_SUPPORTED;
    unsigned slices = compute_slices[kind], all = (unsigned)part->slices;
    *profile = (compute_profile_t){
        kind, slices, all / slices, known(part->multiprocessors) * slices / all, known(part->copy_engines),
        known(part->decoders), known(part->encoders), known(part->jpeg_engines), known(part->ofa_engines),
    };
    return SUCCESS;
}

NVML_API nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned kind, unsigned engines, compute_profile_t *info)
{
    struct device found;
    compute_profile_t profile;
    nvmlReturn_t result = find_compute(instance, kind, &found, &profile);
    if (!result && engines)
        result = NOT_SUPPORTED;
    if (result || !info)
        return result ? result : INVALID_ARGUMENT;
    *info = profile;
    return SUCCESS;
}

NVML_API nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned kind, unsigned engines, compute_profile_v3_t *info)
{
    struct device found;
    compute_profile_t profile;
    if (!info)
        return INVALID_ARGUMENT;
    if (info->version != VERSION_OF(compute_profile_v2_t, 2) && info->version != VERSION_OF(compute_profile_v3_t, 3))
        return VERSION_MISMATCH;
    nvmlReturn_t result = find_compute(instance, kind, &found, &profile);
    if (!result && engines)
        result = NOT_SUPPORTED;
    if (result)
        return result;
    info->profile = profile;
    if (info->version == VERSION_OF(compute_profile_v3_t, 3))
        info->capabilities = 0;
    if (profile.slices == (unsigned)found.part.slices)
        snprintf(info->name, sizeof info->name, "MIG %s", found.part.profile);
    else
        snprintf(info->name, sizeof info->name, "MIG %uc.%s", profile.slices, found.part.profile);
    return SUCCESS;
}

/* A GPU instance has one compute instance at most, which is all of it. */
NVML_API nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned kind, unsigned *count)
{
    struct device found;
    compute_profile_t profile;
    nvmlReturn_t result = find_compute(instance, kind, &found, &profile);
    return result ? result : give(found.part.computes != 1 && profile.slices == (unsigned)found.part.slices, count);
}

NVML_API nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned kind, placement_t *places, unsigned *count)
{
    struct device found;
    compute_profile_t profile;
    nvmlReturn_t result = find_compute(instance, kind, &found, &profile);
    if (result || !count)
        return result ? result : INVALID_ARGUMENT;
    unsigned room = places ? *count : 0;
    *count = profile.instances;
    for (unsigned place = 0; place < room && place < *count; place++)
        places[place] = (placement_t){place * profile.slices, profile.slices};
    return places && *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

NVML_API nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned kind, nvmlComputeInstance_t *instances, unsigned *count)
{
    struct device found;
    compute_profile_t profile;
    nvmlReturn_t result = find_compute(instance, kind, &found, &profile);
    if (result || !count || !instances)
        return result ? result : INVALID_ARGUMENT;
    *count = found.part.computes == 1 && profile.slices == (unsigned)found.part.slices;
    if (*count)
        *instances = instance_handle(COMPUTE_INSTANCE, found.index, found.part.gpu_instance);
    return SUCCESS;
}

NVML_API nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned id, nvmlComputeInstance_t *compute)
{
    struct device found;
    nvmlReturn_t result = read_instance_handle(instance, GPU_INSTANCE, &found);
    if (result || !compute)
        return result ? result : INVALID_ARGUMENT;
    if (id || found.part.computes != 1)
        return NOT_FOUND;
    *compute = instance_handle(COMPUTE_INSTANCE, found.index, found.part.gpu_instance);
    return SUCCESS;
}

NVML_API nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, compute_instance_t *info)
{
    struct device found;
    unsigned kind = 0;
    nvmlReturn_t result = read_instance_handle(compute, COMPUTE_INSTANCE, &found);
    if (result || !info)
        return result ? result : INVALID_ARGUMENT;
    if (found.part.computes != 1)
        return NOT_FOUND;
    while (kind < COMPUTE_KINDS - 1 && compute_slices[kind] < (unsigned)found.part.slices)
        kind++;
    *info = (compute_instance_t){
        handle_of(found.index, -1), instance_handle(GPU_INSTANCE, found.index, found.part.gpu_instance), 0, kind,
        {0, (unsigned)found.part.slices},
    };
    return SUCCESS;
}

NVML_API nvmlComputeInstanceGetInfo(nvmlComputeInstance_t compute, compute_instance_t *info)
{
    return nvmlComputeInstanceGetInfo_v2(compute, info);
}

/* What changes instances is a step for the service (fakedev/nvml/divisions.py), which answers when the file has it. */
static nvmlReturn_t create(nvmlDevice_t device, unsigned number, const placement_t *place, nvmlGpuInstance_t *instance)
{
    struct device found;
    struct profile profile;
    int64_t id = 0;
    char step[48];
    nvmlReturn_t result = find_profile(device, 0, number, &found, &profile);
    if (!result && found.board.mig_mode != 1)
        result = NOT_SUPPORTED;
    if (result || !instance)
        return result ? result : INVALID_ARGUMENT;
    if (place)
        snprintf(step, sizeof step, "gpu=%u@%u", number, place->start);
    else
        snprintf(step, sizeof step, "gpu=%u", number);
    if (!(result = divide(&found, step, &id)))
        *instance = instance_handle(GPU_INSTANCE, found.index, id);
    return result;
}

NVML_API nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned number, nvmlGpuInstance_t *instance)
{
    return create(device, number, NULL, instance);
}

NVML_API nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned number, const placement_t *place, nvmlGpuInstance_t *instance)
{
    return place ? create(device, number, place, instance) : INVALID_ARGUMENT;
}

static nvmlReturn_t divide_by_id(const void *handle, unsigned kind, const char *what)
{
    struct device found;
    int64_t id = 0;
    char step[48];
    nvmlReturn_t result = read_instance_handle(handle, kind, &found);
    if (result)
        return result;
    snprintf(step, sizeof step, "%s=%u", what, (unsigned)found.part.gpu_instance);
    return divide(&found, step, &id);
}

NVML_API nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
    return divide_by_id(instance, GPU_INSTANCE, "no-gpu");
}

NVML_API nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute)
{
    return divide_by_id(compute, COMPUTE_INSTANCE, "no-compute");
}

/* A compute instance of a part of its GPU instance is not simulated. */
NVML_API nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned kind, nvmlComputeInstance_t *compute)
{
    struct device found;
    compute_profile_t profile;
    nvmlReturn_t result = find_compute(instance, kind, &found, &profile);
    if (result || !compute)
        return result ? result : INVALID_ARGUMENT;
    if (profile.slices != (unsigned)found.part.slices)
        return NOT_SUPPORTED;
    if (!(result = divide_by_id(instance, GPU_INSTANCE, "compute")))
        *compute = instance_handle(COMPUTE_INSTANCE, found.index, found.part.gpu_instance);
    return result;
}

NVML_API nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned kind, const placement_t *place, nvmlComputeInstance_t *compute)
{
    return place && !place->start ? nvmlGpuInstanceCreateComputeInstance(instance, kind, compute) : INVALID_ARGUMENT;
}

NVML_API nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activation)
{
    struct device found;
    int64_t id = 0;
    nvmlReturn_t result = read_board_unless(mode > 1, device, &found);
    if (!result && !found.board.max_part_count)
        result = NOT_SUPPORTED;
    if (!result && found.board.mig_mode != (int64_t)mode)
        result = divide(&found, mode ? "mode=1" : "mode=0", &id);
    if (activation)
        *activation = result;
    return result;
}
