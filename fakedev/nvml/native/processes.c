/* The processes on boards: workloads. */
#include <string.h>
#include <time.h>

#include "session.h"

enum { COMPUTE = 0, GRAPHICS = 1, ANY = 2 };

/* What is done with a process: entry is its place in the caller's array. */
typedef void (*writer_t)(void *entries, unsigned entry, const struct process *process, unsigned instance);

/* The first process of a board: the records are in the order of boards. */
static int64_t first_of(const struct process *processes, int64_t count, int64_t board)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (processes[middle].board < board)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Write the processes of a device, as far as there is room, and count them; in one tick. */
static nvmlReturn_t list(const struct map *map, const struct device *device, int kind, writer_t write, void *entries,
                         unsigned room, unsigned *found, int64_t *time)
{
    const struct head *head = map_head(map);
    for (int tries = 0; tries < 1000; tries++) {
        const unsigned char *slot;
        int64_t sequence = slot_begin(map, &slot);
        const struct slot_head *slot_head = (const struct slot_head *)slot;
        const struct process *processes = (const struct process *)(slot + head->processes_in_slot);
        int64_t count = __atomic_load_n(&slot_head->process_count, __ATOMIC_RELAXED);
        if (count < 0 || count > head->process_capacity)
            count = 0;
        *found = 0;
        *time = slot_head->wall_time;
        for (int64_t at = first_of(processes, count, device->position); at < count; at++) {
            struct process process = processes[at];
            struct part part;
            unsigned instance = NO_ID;
            if (process.board != device->position)
                break;
            if (device->is_part && process.part != device->part_position)
                continue;
            if (kind != ANY && (process.is_graphics == 1) != kind)
                continue;
            if (process.part >= 0 && process.part < head->part_count) {
                memcpy(&part, slot + head->parts_in_slot + process.part * (int64_t)sizeof part, sizeof part);
                instance = (unsigned)part.gpu_instance;
            }
            if (*found < room)
                write(entries, *found, &process, instance);
            ++*found;
        }
        if (slot_is_whole(map, sequence))
            return SUCCESS;
    }
    return UNKNOWN_ERROR;
}

static nvmlReturn_t processes_of(nvmlDevice_t handle, int kind, writer_t write, void *entries, unsigned *count,
                                 int64_t *time)
{
    struct device device;
    const struct map *map;
    unsigned found = 0;
    nvmlReturn_t result = read_device(handle, &device);
    if (result)
        return result;
    if (!count || (*count && !entries))
        return INVALID_ARGUMENT;
    if ((result = session_enter(&map)))
        return result;
    result = list(map, &device, kind, write, entries, *count, &found, time);
    session_leave();
    if (!result && found > *count)
        result = INSUFFICIENT_SIZE;
    *count = found;
    return result;
}

static void write_v1(void *entries, unsigned entry, const struct process *process, unsigned instance)
{
    (void)instance;
    ((process_v1_t *)entries)[entry] = (process_v1_t){(unsigned)process->pid, (unsigned long long)process->memory_used};
}

static void write_v2(void *entries, unsigned entry, const struct process *process, unsigned instance)
{
    ((process_v2_t *)entries)[entry] = (process_v2_t){
        (unsigned)process->pid, (unsigned long long)process->memory_used, instance, instance == NO_ID ? NO_ID : 0,
    };
}

static void write_detail(void *entries, unsigned entry, const struct process *process, unsigned instance)
{
    ((process_detail_t *)entries)[entry] = (process_detail_t){
        (unsigned)process->pid, (unsigned long long)process->memory_used, instance, instance == NO_ID ? NO_ID : 0, 0,
    };
}

static void write_sample(void *entries, unsigned entry, const struct process *process, unsigned instance)
{
    (void)instance;
    ((process_sample_t *)entries)[entry] = (process_sample_t){
        .pid = (unsigned)process->pid, .sm = (unsigned)process->usage, .memory = (unsigned)process->memory_usage,
        .encoder = (unsigned)process->encoder_usage, .decoder = (unsigned)process->decoder_usage,
    };
}

static void write_usage(void *entries, unsigned entry, const struct process *process, unsigned instance)
{
    (void)instance;
    ((process_usage_t *)entries)[entry] = (process_usage_t){
        .pid = (unsigned)process->pid, .sm = (unsigned)process->usage, .memory = (unsigned)process->memory_usage,
        .encoder = (unsigned)process->encoder_usage, .decoder = (unsigned)process->decoder_usage,
    };
}

#define LIST(name, type, kind, write)                                       \
    name(nvmlDevice_t device, unsigned *count, type *entries)               \
    {                                                                       \
        int64_t time;                                                       \
        return processes_of(device, kind, write, entries, count, &time);    \
    }

NVML_API LIST(nvmlDeviceGetComputeRunningProcesses, process_v1_t, COMPUTE, write_v1)
NVML_API LIST(nvmlDeviceGetComputeRunningProcesses_v2, process_v2_t, COMPUTE, write_v2)
NVML_API LIST(nvmlDeviceGetComputeRunningProcesses_v3, process_v2_t, COMPUTE, write_v2)
NVML_API LIST(nvmlDeviceGetGraphicsRunningProcesses, process_v1_t, GRAPHICS, write_v1)
NVML_API LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, process_v2_t, GRAPHICS, write_v2)
NVML_API LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, process_v2_t, GRAPHICS, write_v2)

/* No process shares a context by MPS. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    return result ? result : give(0, count);
}

#define NONE(name) \
    name(nvmlDevice_t device, unsigned *count, void *entries) { (void)entries; return no_processes(device, count); }

NVML_API NONE(nvmlDeviceGetMPSComputeRunningProcesses)
NVML_API NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NVML_API NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3)

NVML_API nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, process_details_t *details)
{
    int64_t time;
    if (!details)
        return INVALID_ARGUMENT;
    if (details->version != VERSION_OF(process_details_t, 1))
        return VERSION_MISMATCH;
    if (details->mode > 2)
        return INVALID_ARGUMENT;
    if (details->mode == 2)
        return no_processes(device, &details->count);
    return processes_of(device, (int)details->mode, write_detail, details->entries, &details->count, &time);
}

/* As the driver does, no usage of processes on boards in MIG mode, nor on their instances. */
static nvmlReturn_t usages_of(nvmlDevice_t handle, writer_t write, void *entries, unsigned *count, int64_t *time)
{
    struct device device;
    nvmlReturn_t result = read_device(handle, &device);
    if (result)
        return result;
    return device.board.mig_mode == 1 ? NOT_SUPPORTED : processes_of(handle, ANY, write, entries, count, time);
}

/* Whether there is a sample after the time that a caller has seen. Callers who take that from their own clock, as nvitop
   does with a second ago, find the sample of a tick that still holds. */
static int is_newer(int64_t *time, unsigned long long last_seen)
{
    struct timespec now;
    if ((unsigned long long)*time >= last_seen)
        return (unsigned long long)*time > last_seen;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
    return (unsigned long long)*time > last_seen;
}

NVML_API nvmlDeviceGetProcessUtilization(nvmlDevice_t device, process_sample_t *samples, unsigned *count,
                                         unsigned long long last_seen)
{
    int64_t time = 0;
    unsigned none = 0;
    if (!count)
        return INVALID_ARGUMENT;
    nvmlReturn_t result = usages_of(device, write_sample, samples, samples ? count : &none, &time);
    if (!samples)
        *count = none;
    if (!result && (!*count || !is_newer(&time, last_seen)))
        result = NOT_FOUND;
    for (unsigned entry = 0; !result && samples && entry < *count; entry++)
        samples[entry].time = (unsigned long long)time;
    return result;
}

NVML_API nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, process_usages_t *usages)
{
    int64_t time = 0;
    unsigned none = 0;
    if (!usages)
        return INVALID_ARGUMENT;
    if (usages->version != VERSION_OF(process_usages_t, 1))
        return VERSION_MISMATCH;
    unsigned *count = usages->entries ? &usages->count : &none;
    nvmlReturn_t result = usages_of(device, write_usage, usages->entries, count, &time);
    usages->count = *count;
    if (!result && (!usages->count || !is_newer(&time, usages->last_seen)))
        result = NOT_FOUND;
    for (unsigned entry = 0; !result && entry < usages->count; entry++)
        usages->entries[entry].time = (unsigned long long)time;
    return result;
}

/* The name of the workload of a process on a board of this node. */
NVML_API nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    const struct map *map;
    struct slot_head slot;
    struct process process = {0};
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    const struct head *head = map_head(map);
    result = copy_record(map, 0, 0, &slot, sizeof slot);
    int64_t count = result || slot.process_count > head->process_capacity ? 0 : slot.process_count;
    int is_found = 0;
    for (int64_t at = 0; !result && !is_found && at < count; at++) {
        result = copy_record(map, head->processes_in_slot, at, &process, sizeof process);
        is_found = process.pid == pid && process.board >= map->first_board &&
                   process.board < map->first_board + map->board_count;
    }
    session_leave();
    end_texts_of_process(&process);
    return result ? result : is_found ? give_text(process.name, name, length) : NOT_FOUND;
}
