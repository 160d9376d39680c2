/* Initialisation, which is counted; handles; and the records that they mean. */
#include "session.h"

#include <pthread.h>
#include <string.h>

/* At most so often the path is opened again while no service writes. */
#define RETRY_NS 500000000LL
/* A handle: the number of a board and of its GPU instance, each plus 1, and bits that chance does not have. */
#define HANDLE_TAG 0x46440000u
#define HANDLE_SHIFT 32
/* A bit of the tag that is another one in handles of instances. */
#define INSTANCE_SHIFT 16

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static unsigned initialised;
static struct map current;
static int64_t tried_ns;
static uint64_t followed;
static uint64_t opened;

/* After a fork another thread may have had the lock. */
static void child_after_fork(void)
{
    lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, child_after_fork);
}

static nvmlReturn_t open_current(int say_why)
{
    struct map fresh;
    tried_ns = now_ns();
    nvmlReturn_t result = map_open(&fresh, say_why);
    if (result == SUCCESS) {
        map_close(&current);
        fresh.number = ++opened;
        current = fresh;
    }
    return result;
}

/* Whether to look for a file now: at once, and then at intervals, after another one has taken the place of ours. */
static int may_try(void)
{
    if (map_is_replaced(&current) && followed != current.number) {
        followed = current.number;
        return 1;
    }
    return now_ns() - tried_ns >= RETRY_NS;
}

NVML_API nvmlInitWithFlags(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    nvmlReturn_t result = SUCCESS;
    (void)flags;
    pthread_once(&once, watch_forks);
    pthread_rwlock_wrlock(&lock);
    if (!initialised || !map_is_alive(&current))
        result = open_current(1);
    if (result == SUCCESS)
        initialised++;
    pthread_rwlock_unlock(&lock);
    return result;
}

NVML_API nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

NVML_API nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

NVML_API nvmlShutdown(void)
{
    nvmlReturn_t result = UNINITIALIZED;
    pthread_rwlock_wrlock(&lock);
    if (initialised) {
        result = SUCCESS;
        if (!--initialised)
            map_close(&current);
    }
    pthread_rwlock_unlock(&lock);
    return result;
}

nvmlReturn_t session_enter(const struct map **map)
{
    *map = &current;
    pthread_rwlock_rdlock(&lock);
    if (initialised && map_is_alive(&current))
        return SUCCESS;
    pthread_rwlock_unlock(&lock);

    pthread_rwlock_wrlock(&lock);
    nvmlReturn_t result = initialised ? SUCCESS : UNINITIALIZED;
    if (result == SUCCESS && !map_is_alive(&current))
        result = may_try() ? open_current(0) : DRIVER_NOT_LOADED;
    pthread_rwlock_unlock(&lock);
    if (result)
        return result;

    pthread_rwlock_rdlock(&lock);
    if (initialised && current.base)
        return SUCCESS;
    pthread_rwlock_unlock(&lock);
    return initialised ? DRIVER_NOT_LOADED : UNINITIALIZED;
}

void session_leave(void)
{
    pthread_rwlock_unlock(&lock);
}

nvmlDevice_t handle_of(unsigned index, int64_t gpu_instance)
{
    return (nvmlDevice_t)(((uintptr_t)(index + 1) << HANDLE_SHIFT) | HANDLE_TAG | (uintptr_t)((gpu_instance + 1) & 0xFFFF));
}

void *instance_handle(unsigned kind, unsigned index, int64_t gpu_instance)
{
    return (void *)((uintptr_t)handle_of(index, gpu_instance) ^ (uintptr_t)kind << INSTANCE_SHIFT);
}

nvmlReturn_t read_instance_handle(const void *handle, unsigned kind, struct device *device)
{
    nvmlReturn_t result = read_part((nvmlDevice_t)((uintptr_t)handle ^ (uintptr_t)kind << INSTANCE_SHIFT), device);
    return result == NOT_SUPPORTED ? INVALID_ARGUMENT : result;
}

nvmlReturn_t read_profile(const struct device *device, unsigned number, struct profile *profile)
{
    const struct map *map;
    const struct board *board = &device->board;
    if (number >= (uint64_t)board->profile_count)
        return NOT_FOUND;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    if (board->first_profile < 0 || board->first_profile >= map_head(map)->profile_count - (int64_t)number)
        result = UNKNOWN_ERROR;
    else
        result = copy_record(map, map_head(map)->profiles_in_slot, board->first_profile + number, profile, sizeof *profile);
    session_leave();
    end_texts_of_profile(profile);
    return result;
}

nvmlReturn_t read_by_index(const struct map *map, unsigned index, struct device *device)
{
    if (index >= (uint64_t)map->visible_count)
        return INVALID_ARGUMENT;
    memset(device, 0, offsetof(struct device, part));
    device->is_part = device->is_mig_device = 0;
    device->index = index;
    device->position = position_of(map, index);
    device->part_position = ABSENT;
    nvmlReturn_t result =
        copy_record(map, map_head(map)->boards_in_slot, device->position, &device->board, sizeof device->board);
    end_texts_of_board(&device->board);
    return result;
}

nvmlReturn_t read_other_board(int64_t position, struct device *device)
{
    const struct map *map;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    if (position < map->first_board || position >= map->first_board + map->board_count)
        result = NOT_FOUND;
    else
        result = copy_record(map, map_head(map)->boards_in_slot, position, &device->board, sizeof device->board);
    session_leave();
    return result;
}

static nvmlReturn_t read_instance(const struct map *map, unsigned part, struct device *device)
{
    const struct board *board = &device->board;
    if (part >= (uint64_t)board->part_count)
        return INVALID_ARGUMENT;
    if (board->first_part < 0 || board->first_part >= map_head(map)->part_count - (int64_t)part)
        return UNKNOWN_ERROR;
    device->is_part = 1;
    device->part_position = board->first_part + part;
    nvmlReturn_t result =
        copy_record(map, map_head(map)->parts_in_slot, device->part_position, &device->part, sizeof device->part);
    end_texts_of_part(&device->part);
    device->is_mig_device = device->part.computes == 1 && is_visible_part(map, device->index, part, &device->part);
    return result;
}

static nvmlReturn_t unless_lost(const struct device *device)
{
    return device->board.lost == 1 || (device->is_part && device->part.lost == 1) ? GPU_IS_LOST : SUCCESS;
}

nvmlReturn_t read_device(nvmlDevice_t handle, struct device *device)
{
    const struct map *map;
    uintptr_t value = (uintptr_t)handle;
    unsigned part = value & 0xFFFF;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    if ((value & 0xFFFF0000u) != HANDLE_TAG || !(value >> HANDLE_SHIFT))
        result = INVALID_ARGUMENT;
    else
        result = read_by_index(map, (unsigned)(value >> HANDLE_SHIFT) - 1, device);
    for (unsigned place = 0; !result && part; place++) {
        result = read_instance(map, place, device);
        if (!result && device->part.gpu_instance == part - 1)
            break;
    }
    session_leave();
    return result ? result : unless_lost(device);
}

nvmlReturn_t read_part_at(unsigned index, unsigned place, struct device *device)
{
    const struct map *map;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    result = read_by_index(map, index, device);
    if (!result)
        result = read_instance(map, place, device);
    session_leave();
    return result ? result : unless_lost(device);
}

nvmlReturn_t read_board(nvmlDevice_t handle, struct device *device)
{
    nvmlReturn_t result = read_device(handle, device);
    return result ? result : device->is_part ? NOT_SUPPORTED : SUCCESS;
}

nvmlReturn_t read_board_unless(int is_wrong, nvmlDevice_t handle, struct device *device)
{
    nvmlReturn_t result = read_board(handle, device);
    return result ? result : is_wrong ? INVALID_ARGUMENT : SUCCESS;
}

nvmlReturn_t read_part(nvmlDevice_t handle, struct device *device)
{
    nvmlReturn_t result = read_device(handle, device);
    return result ? result : device->is_part ? SUCCESS : NOT_SUPPORTED;
}

nvmlReturn_t read_slot_head(struct slot_head *slot)
{
    const struct map *map;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    result = copy_record(map, 0, 0, slot, sizeof *slot);
    session_leave();
    return result;
}

nvmlReturn_t read_board_and_slot(int is_wrong, nvmlDevice_t handle, struct device *device, struct slot_head *slot)
{
    nvmlReturn_t result = read_board(handle, device);
    if (!result)
        result = read_slot_head(slot);
    return result ? result : is_wrong ? INVALID_ARGUMENT : SUCCESS;
}

nvmlReturn_t read_node(struct node *node)
{
    const struct map *map;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    result = copy_record(map, map_head(map)->nodes_in_slot, map->node, node, sizeof *node);
    session_leave();
    end_texts_of_node(node);
    return result;
}

nvmlReturn_t read_link(nvmlDevice_t handle, unsigned number, struct device *device, struct link *link)
{
    const struct map *map;
    nvmlReturn_t result = read_board(handle, device);
    if (result)
        return result;
    if (!device->board.link_count)
        return NOT_SUPPORTED;
    if (number >= (uint64_t)device->board.link_count)
        return INVALID_ARGUMENT;
    if ((result = session_enter(&map)))
        return result;
    if (device->board.first_link < 0 || device->board.first_link >= map_head(map)->link_count - (int64_t)number)
        result = UNKNOWN_ERROR;
    else
        result = copy_record(map, map_head(map)->links_in_slot, device->board.first_link + number, link, sizeof *link);
    session_leave();
    return result;
}

nvmlReturn_t give(int64_t number, unsigned *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    if (number == ABSENT)
        return NOT_SUPPORTED;
    *out = (unsigned)number;
    return SUCCESS;
}

nvmlReturn_t give_long(int64_t number, unsigned long long *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    if (number == ABSENT)
        return NOT_SUPPORTED;
    *out = (unsigned long long)number;
    return SUCCESS;
}

nvmlReturn_t give_text(const char *text, char *out, unsigned length)
{
    size_t size = strlen(text) + 1;
    if (!out)
        return INVALID_ARGUMENT;
    if (size == 1)
        return NOT_SUPPORTED;
    if (size > length)
        return INSUFFICIENT_SIZE;
    memcpy(out, text, size);
    return SUCCESS;
}
