/* Calls: each begins with session_enter or one of the functions that read a board, which do. */
#ifndef FAKEDEV_SESSION_H
#define FAKEDEV_SESSION_H

#include "map.h"

/* A board, or a MIG instance of it, in the tick that is shown. */
struct device {
    struct board board;
    struct part part;
    int is_part;
    int is_mig_device; /* it has a compute instance, and this process sees it */
    unsigned index;    /* of the board for this process */
    int64_t position;  /* of the board in the file */
    int64_t part_position;
};

/* Begin a call: 0, and the map stays until session_leave; else the error that the call returns. */
nvmlReturn_t session_enter(const struct map **map);
void session_leave(void);

/* The handle of a board of the node, or of the MIG device with a number of its GPU instance; -1: of the board. */
nvmlDevice_t handle_of(unsigned index, int64_t gpu_instance);

/* The same of an instance of a board, as a GPU instance (kind 1) or as its compute instance (kind 2). */
void *instance_handle(unsigned kind, unsigned index, int64_t gpu_instance);
nvmlReturn_t read_instance_handle(const void *handle, unsigned kind, struct device *device);

/* Read what a handle means. read_board refuses instances, read_part boards. */
nvmlReturn_t read_device(nvmlDevice_t handle, struct device *device);
nvmlReturn_t read_board(nvmlDevice_t handle, struct device *device);
nvmlReturn_t read_part(nvmlDevice_t handle, struct device *device);
/* Read an instance by its place among those of its board. */
nvmlReturn_t read_part_at(unsigned index, unsigned place, struct device *device);
/* Read a board, and then refuse other arguments that are wrong. */
nvmlReturn_t read_board_unless(int is_wrong, nvmlDevice_t handle, struct device *device);
nvmlReturn_t read_board_and_slot(int is_wrong, nvmlDevice_t handle, struct device *device, struct slot_head *slot);
/* Read a board by its index, also a lost one. */
nvmlReturn_t read_by_index(const struct map *map, unsigned index, struct device *device);
/* Read a board of the node by its position in the file, also one that this process does not see. */
nvmlReturn_t read_other_board(int64_t position, struct device *device);
/* The links of a board: the one with this number. */
nvmlReturn_t read_link(nvmlDevice_t handle, unsigned number, struct device *device, struct link *link);
/* A kind of instance that a board can have: the one with this number among them. */
nvmlReturn_t read_profile(const struct device *device, unsigned number, struct profile *profile);
/* The head of the slot, for its time. */
nvmlReturn_t read_slot_head(struct slot_head *slot);
nvmlReturn_t read_node(struct node *node);

/* Ask the service for a change of a board's instances; the id of the GPU instance that it is about. */
nvmlReturn_t divide(const struct device *device, const char *step, int64_t *id);

/* Give a number or a text: not supported if it is absent. */
nvmlReturn_t give(int64_t number, unsigned *out);
nvmlReturn_t give_long(int64_t number, unsigned long long *out);
nvmlReturn_t give_pci(const struct board *board, pci_info_t *info);
nvmlReturn_t give_text(const char *text, char *out, unsigned length);

#endif
