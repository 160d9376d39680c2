/* The file of the service: opened, checked, and read without torn values. fakedev/nvml/records.py describes it. */
#include "map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define DEAD_NS ((int64_t)(DEAD_SECONDS) * SECOND_NS)
/* The clocks of two cores, and a heartbeat that was written after the time was taken. */
#define AHEAD_NS SECOND_NS
/* How often the size of the file is looked at: nobody but its owner could cut it. */
#define CHECK_NS (SECOND_NS / 10)
#define TRIES 1000
#define LISTED_NODES 5

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

const struct head *map_head(const struct map *map)
{
    return &map->head;
}

const struct head *map_live(const struct map *map)
{
    return (const struct head *)map->base;
}

static int64_t number_at(const int64_t *place)
{
    return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}

/* Whether a table of so many records fits between its place and an end. */
static int fits(int64_t place, int64_t count, size_t size, int64_t end)
{
    return place >= 0 && count >= 0 && place <= end && count <= (end - place) / (int64_t)size;
}

static int is_valid(const struct head *head, int64_t file_bytes)
{
    return memcmp(head->magic, LAYOUT_MAGIC, sizeof LAYOUT_MAGIC) == 0 && head->layout_version == LAYOUT_VERSION &&
           head->head_bytes == (int64_t)sizeof(struct head) &&
           head->slot_head_bytes == (int64_t)sizeof(struct slot_head) &&
           head->node_bytes == (int64_t)sizeof(struct node) && head->board_bytes == (int64_t)sizeof(struct board) &&
           head->part_bytes == (int64_t)sizeof(struct part) && head->link_bytes == (int64_t)sizeof(struct link) &&
           head->profile_bytes == (int64_t)sizeof(struct profile) &&
           head->process_bytes == (int64_t)sizeof(struct process) &&
           head->event_bytes == (int64_t)sizeof(struct event) && head->event_capacity > 0 &&
           head->file_bytes <= file_bytes && head->slot_bytes >= (int64_t)sizeof(struct slot_head) &&
           head->slot_bytes % 8 == 0 && head->first_slot % 8 == 0 && head->events % 8 == 0 &&
           head->events >= (int64_t)sizeof(struct head) &&
           fits(head->events, head->event_capacity, sizeof(struct event), head->first_slot) &&
           fits(head->first_slot, 2, (size_t)head->slot_bytes, head->file_bytes) &&
           fits(head->nodes_in_slot, head->node_count, sizeof(struct node), head->slot_bytes) &&
           fits(head->boards_in_slot, head->board_count, sizeof(struct board), head->slot_bytes) &&
           fits(head->parts_in_slot, head->part_count, sizeof(struct part), head->slot_bytes) &&
           fits(head->links_in_slot, head->link_count, sizeof(struct link), head->slot_bytes) &&
           fits(head->profiles_in_slot, head->profile_count, sizeof(struct profile), head->slot_bytes) &&
           fits(head->processes_in_slot, head->process_capacity, sizeof(struct process), head->slot_bytes) &&
           number_at(&head->published) > 0;
}

int64_t slot_begin(const struct map *map, const unsigned char **slot)
{
    const struct head *head = map_head(map);
    int64_t sequence = number_at(&map_live(map)->published);
    *slot = map->base + head->first_slot + (sequence & 1) * head->slot_bytes;
    return sequence;
}

int slot_is_whole(const struct map *map, int64_t sequence)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return number_at(&map_live(map)->begun) - sequence <= 1;
}

nvmlReturn_t copy_record(const struct map *map, int64_t place, int64_t number, void *copy, size_t size)
{
    const unsigned char *slot;
    for (int tries = 0; tries < TRIES; tries++) {
        int64_t sequence = slot_begin(map, &slot);
        memcpy(copy, slot + place + number * (int64_t)size, size);
        if (slot_is_whole(map, sequence))
            return SUCCESS;
    }
    return UNKNOWN_ERROR;
}

int map_is_alive(struct map *map)
{
    if (!map->base)
        return 0;
    const struct head *head = map_live(map);
    int64_t now = now_ns();
    if (now - __atomic_load_n(&map->checked_ns, __ATOMIC_RELAXED) > CHECK_NS) {
        struct stat status;
        if (fstat(map->descriptor, &status) || status.st_size < (off_t)map->size)
            return 0;
        __atomic_store_n(&map->checked_ns, now, __ATOMIC_RELAXED);
    }
    int64_t silent = now - number_at(&head->heartbeat);
    return number_at(&head->state) == STATE_OPEN && silent < DEAD_NS && silent > -AHEAD_NS;
}

int map_is_replaced(const struct map *map)
{
    return map->base && number_at(&map_live(map)->state) == STATE_REPLACED;
}

void find_path(char *path, size_t size)
{
    const char *given = getenv("FAKEDEV_NVML_FILE"), *folder;
    if (given && *given)
        snprintf(path, size, "%s", given);
    else if ((folder = getenv("RUNTIME_DIRECTORY")) && *folder)
        snprintf(path, size, "%.*s/%s", (int)strcspn(folder, ":"), folder, LAYOUT_FILE_NAME);
    else if ((folder = getenv("XDG_RUNTIME_DIR")) && *folder)
        snprintf(path, size, "%s/fakedev/%s", folder, LAYOUT_FILE_NAME);
    else {
        folder = getenv("TMPDIR");
        snprintf(path, size, "%s/fakedev-%u/%s", folder && *folder ? folder : "/tmp", (unsigned)getuid(),
                 LAYOUT_FILE_NAME);
    }
}

/* Name some nodes of the file on standard error. */
static void list_nodes(const struct map *map, const char *what)
{
    const struct head *head = map_head(map);
    struct node node;
    fprintf(stderr, "fakedev: %s: set FAKEDEV_NODE to one of", what);
    for (int64_t number = 0; number < head->node_count && number < LISTED_NODES; number++)
        if (!copy_record(map, head->nodes_in_slot, number, &node, sizeof node))
            fprintf(stderr, "%s %.*s", number ? "," : "", (int)sizeof node.name - 1, node.name);
    fprintf(stderr, "%s\n", head->node_count > LISTED_NODES ? ", ..." : "");
}

static nvmlReturn_t choose_node(struct map *map, int say_why)
{
    const struct head *head = map_head(map);
    const char *wanted = getenv("FAKEDEV_NODE");
    struct node node;
    int is_given = wanted && *wanted;
    if (!is_given && head->node_count != 1) {
        if (say_why)
            list_nodes(map, head->node_count ? "the file has several nodes" : "the file has no nodes");
        return DRIVER_NOT_LOADED;
    }
    for (int64_t number = 0; number < head->node_count; number++) {
        if (copy_record(map, head->nodes_in_slot, number, &node, sizeof node))
            return DRIVER_NOT_LOADED;
        end_texts_of_node(&node);
        if (is_given && strcmp(node.name, wanted) != 0)
            continue;
        if (!fits(node.first_board, node.board_count, 1, head->board_count))
            return DRIVER_NOT_LOADED;
        map->node = number;
        map->first_board = node.first_board;
        map->board_count = node.board_count;
        return SUCCESS;
    }
    if (say_why)
        list_nodes(map, "there is no such node");
    return DRIVER_NOT_LOADED;
}

nvmlReturn_t map_open(struct map *map, int say_why)
{
    char path[4200];
    struct stat status;
    struct head head;
    find_path(path, sizeof path);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return DRIVER_NOT_LOADED;
    if (fstat(descriptor, &status) || !S_ISREG(status.st_mode) || pread(descriptor, &head, sizeof head, 0) != sizeof head ||
        !is_valid(&head, status.st_size)) {
        close(descriptor);
        return DRIVER_NOT_LOADED;
    }
    size_t size = (size_t)head.file_bytes;
    void *base = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (base == MAP_FAILED) {
        close(descriptor);
        return DRIVER_NOT_LOADED;
    }
    *map = (struct map){.base = base, .size = size, .head = head, .descriptor = descriptor};
    if (!map_is_alive(map) || choose_node(map, say_why) || choose_boards(map, say_why)) {
        map_close(map);
        return DRIVER_NOT_LOADED;
    }
    return SUCCESS;
}

void map_close(struct map *map)
{
    if (map->base) {
        munmap((void *)map->base, map->size);
        close(map->descriptor);
        free(map->visible);
        free(map->visible_list);
    }
    map->base = NULL;
    map->visible = NULL;
    map->visible_list = NULL;
}
