/* The file of the service, mapped for reading. */
#ifndef FAKEDEV_MAP_H
#define FAKEDEV_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "nvml.h"

/* A board that this process sees: its number in its node, and whether it sees all of its MIG devices. */
struct visible {
    int64_t number;
    int is_whole;
};

/* A file that is open. The position and the boards of the node that this process sees are in it. */
struct map {
    const unsigned char *base;
    size_t size;
    struct head head; /* its sizes and places, as they were checked */
    int descriptor;
    int64_t checked_ns;
    uint64_t number; /* counts the files that this process has opened */
    int64_t first_board, board_count;
    int64_t node;
    struct visible *visible; /* in the order of the node; NULL: all its boards */
    int64_t visible_count;
    char *visible_list; /* what names them */
};

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t now_ns(void);

/* The name of the file: FAKEDEV_NVML_FILE, or that in the default folder of sockets of the service. */
void find_path(char *path, size_t size);

/* Map the file and find the node; say_why: write a line to standard error when the node cannot be chosen. */
nvmlReturn_t map_open(struct map *map, int say_why);
void map_close(struct map *map);

/* Whether a service writes the file: not ended, not replaced, a heartbeat within 10 s, and not cut. */
int map_is_alive(struct map *map);

/* Whether the service has put another file in its place. */
int map_is_replaced(const struct map *map);

/* The head: sizes and places from the copy, all that changes from the file itself. */
const struct head *map_head(const struct map *map);
const struct head *map_live(const struct map *map);

/* A slot whose content a reader copies between the two calls; the copy is whole if the second one says so. */
int64_t slot_begin(const struct map *map, const unsigned char **slot);
int slot_is_whole(const struct map *map, int64_t sequence);

/* Copy a record of a slot: where the head's place says, the record with this number. */
nvmlReturn_t copy_record(const struct map *map, int64_t place, int64_t number, void *copy, size_t size);

/* Find the boards that this process sees among those of its node; say_why: tell on standard error that there is none. */
nvmlReturn_t choose_boards(struct map *map, int say_why);

/* The position of a board in the file, by its index for this process, and back; -1: it does not see the board. */
int64_t position_of(const struct map *map, unsigned index);
int64_t index_of(const struct map *map, int64_t position);

/* Whether this process sees a MIG device of a board, which has this place among those of the board. */
int is_visible_part(const struct map *map, unsigned index, int64_t place, const struct part *part);

#endif
