/* XIDs for programs that wait for them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session.h"

#define XID_EVENT 8ULL
/* How long a waiting program sleeps between two looks. */
#define SLEEP_NS 50000000LL
#define MILLISECOND_NS 1000000LL
#define SET_MAGIC 0x4D564E4556454E54ULL

/* Events since the last one that was seen, of the boards that were registered. */
struct event_set {
    uint64_t magic;
    pthread_mutex_t mutex;
    uint64_t map_number;
    int64_t seen;
    unsigned count;
    unsigned char *is_registered; /* by the index of the board */
};

static struct event_set *set_of(nvmlEventSet_t handle)
{
    struct event_set *set = handle;
    return set && set->magic == SET_MAGIC ? set : NULL;
}

static int64_t last_event(const struct map *map)
{
    int64_t last = __atomic_load_n(&map_live(map)->event_sequence, __ATOMIC_ACQUIRE);
    return last < 0 ? 0 : last;
}

/* The last event before now, and of which file it is. */
static void begin_at_end(struct event_set *set, const struct map *map)
{
    set->map_number = map->number;
    set->seen = last_event(map);
}

NVML_API nvmlEventSetCreate(nvmlEventSet_t *handle)
{
    const struct map *map;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    struct event_set *set = handle ? calloc(1, sizeof *set) : NULL;
    if (set) {
        set->magic = SET_MAGIC;
        pthread_mutex_init(&set->mutex, NULL);
        begin_at_end(set, map);
        *handle = set;
    }
    session_leave();
    return set ? SUCCESS : handle ? NO_MEMORY : INVALID_ARGUMENT;
}

NVML_API nvmlEventSetFree(nvmlEventSet_t handle)
{
    struct event_set *set = set_of(handle);
    if (!set)
        return INVALID_ARGUMENT;
    set->magic = 0;
    pthread_mutex_destroy(&set->mutex);
    free(set->is_registered);
    free(set);
    return SUCCESS;
}

NVML_API nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give_long((int64_t)XID_EVENT, types);
}

NVML_API nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle)
{
    struct device found;
    struct event_set *set = set_of(handle);
    nvmlReturn_t result = read_board_unless(!set, device, &found);
    if (result)
        return result;
    if (types && !(types & XID_EVENT))
        return NOT_SUPPORTED;
    pthread_mutex_lock(&set->mutex);
    if (found.index >= set->count) {
        unsigned char *more = realloc(set->is_registered, found.index + 1);
        if (more) {
            memset(more + set->count, 0, found.index + 1 - set->count);
            set->is_registered = more;
            set->count = found.index + 1;
        } else
            result = NO_MEMORY;
    }
    if (!result)
        set->is_registered[found.index] = types != 0;
    pthread_mutex_unlock(&set->mutex);
    return result;
}

/* The next event of a registered board: 0, or TIMEOUT while there is none. */
static nvmlReturn_t take(struct event_set *set, event_data_t *data)
{
    const struct map *map;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    const struct head *head = map_head(map);
    const struct event *events = (const struct event *)(map->base + head->events);
    pthread_mutex_lock(&set->mutex);
    if (set->map_number != map->number) { /* all of a new file are new */
        set->map_number = map->number;
        set->seen = 0;
    }
    int64_t last = last_event(map);
    if (last - set->seen >= head->event_capacity)
        set->seen = last - head->event_capacity + 1; /* one place may be written just now */
    result = TIMEOUT;
    while (result == TIMEOUT && set->seen < last) {
        struct event event = events[++set->seen % head->event_capacity];
        int64_t index = index_of(map, event.board);
        if (event.sequence == set->seen && index >= 0 && index < set->count && set->is_registered[index]) {
            *data = (event_data_t){
                handle_of((unsigned)index, -1), XID_EVENT, (unsigned long long)event.xid,
                event.gpu_instance == ABSENT ? NO_ID : (unsigned)event.gpu_instance, NO_ID,
            };
            result = SUCCESS;
        }
    }
    pthread_mutex_unlock(&set->mutex);
    session_leave();
    return result;
}

NVML_API nvmlEventSetWait_v2(nvmlEventSet_t handle, event_data_t *data, unsigned timeout_ms)
{
    struct event_set *set = set_of(handle);
    int64_t end = now_ns() + timeout_ms * MILLISECOND_NS;
    if (!set || !data)
        return INVALID_ARGUMENT;
    for (;;) {
        nvmlReturn_t result = take(set, data);
        int64_t left = end - now_ns();
        if (result != TIMEOUT || left <= 0)
            return result;
        nanosleep(&(struct timespec){.tv_nsec = left < SLEEP_NS ? left : SLEEP_NS}, NULL);
    }
}

NVML_API nvmlEventSetWait(nvmlEventSet_t handle, event_data_t *data, unsigned timeout_ms)
{
    return nvmlEventSetWait_v2(handle, data, timeout_ms);
}
