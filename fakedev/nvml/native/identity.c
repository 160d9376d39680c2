/* What a board is: found by number, name and address; names, versions, PCI, MIG, modes. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "session.h"

NVML_API nvmlDeviceGetCount_v2(unsigned *count)
{
    const struct map *map;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    result = give(map->visible_count, count);
    session_leave();
    return result;
}

NVML_API nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

NVML_API nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    struct device found;
    if (!device)
        return INVALID_ARGUMENT;
    nvmlReturn_t result = read_device(handle_of(index, -1), &found);
    if (result == SUCCESS)
        *device = handle_of(index, -1);
    return result;
}

NVML_API nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* The number of a board by what a test says; a board that matches may be lost. */
static nvmlReturn_t find_board(int (*is_it)(const struct board *, const char *), const char *text, nvmlDevice_t *device)
{
    const struct map *map;
    struct device found;
    unsigned index = 0;
    if (!text || !device)
        return INVALID_ARGUMENT;
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    while (!(result = read_by_index(map, index, &found)) && !is_it(&found.board, text))
        index++;
    session_leave();
    if (result)
        return result == INVALID_ARGUMENT ? NOT_FOUND : result;
    *device = handle_of(index, -1);
    return found.board.lost == 1 ? GPU_IS_LOST : SUCCESS;
}

static int has_serial(const struct board *board, const char *serial)
{
    return *serial && strcmp(board->serial, serial) == 0;
}

static int has_uuid(const struct board *board, const char *uuid)
{
    return *uuid && strcmp(board->uuid, uuid) == 0;
}

/* A bus id with any number of digits of the domain, or without one. */
static int has_bus_id(const struct board *board, const char *text)
{
    unsigned domain = 0, bus, device;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &device) != 3) {
        domain = 0;
        if (sscanf(text, "%x:%x", &bus, &device) != 2)
            return 0;
    }
    return domain == board->pci_domain && bus == board->pci_bus && device == board->pci_device;
}

NVML_API nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    return find_board(has_serial, serial, device);
}

NVML_API nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    return find_board(has_bus_id, bus_id, device);
}

NVML_API nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return find_board(has_bus_id, bus_id, device);
}

NVML_API nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    const struct map *map;
    struct device board, part;
    if (!uuid || !device)
        return INVALID_ARGUMENT;
    if (strncmp(uuid, "MIG-", 4) != 0)
        return find_board(has_uuid, uuid, device);
    nvmlReturn_t result = session_enter(&map);
    if (result)
        return result;
    int64_t count = map->visible_count;
    session_leave();
    for (unsigned index = 0; index < (uint64_t)count; index++) {
        if (read_board(handle_of(index, -1), &board))
            continue;
        for (unsigned place = 0; place < (uint64_t)board.board.part_count && !read_part_at(index, place, &part); place++) {
            if (part.is_mig_device && strcmp(part.part.uuid, uuid) == 0) {
                *device = handle_of(index, part.part.gpu_instance);
                return SUCCESS;
            }
        }
    }
    return NOT_FOUND;
}

NVML_API nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    struct device found;
    char text[sizeof found.board.name + sizeof found.part.profile + 8];
    nvmlReturn_t result = read_device(device, &found);
    if (result)
        return result;
    if (!found.is_part)
        return give_text(found.board.name, name, length);
    snprintf(text, sizeof text, "%s MIG %s", found.board.name, found.part.profile);
    return give_text(text, name, length);
}

NVML_API nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    return result ? result : give_text(found.is_part ? found.part.uuid : found.board.uuid, uuid, length);
}

#define GET_TEXT(name, field)                                            \
    name(nvmlDevice_t device, char *text, unsigned length)               \
    {                                                                    \
        struct device found;                                             \
        nvmlReturn_t result = read_board(device, &found);                \
        return result ? result : give_text(found.board.field, text, length); \
    }

NVML_API GET_TEXT(nvmlDeviceGetSerial, serial)
NVML_API GET_TEXT(nvmlDeviceGetVbiosVersion, vbios_version)
NVML_API GET_TEXT(nvmlDeviceGetInforomImageVersion, inforom_image)
NVML_API GET_TEXT(nvmlDeviceGetBoardPartNumber, part_number)

NVML_API nvmlDeviceGetInforomVersion(nvmlDevice_t device, unsigned object, char *version, unsigned length)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(object > 3, device, &found);
    if (result)
        return result;
    return give_text(object == 0 ? found.board.inforom_oem : object == 1 ? found.board.inforom_ecc : "", version, length);
}

NVML_API nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    if (result)
        return result;
    if (!found.is_part)
        return give(found.index, index);
    struct device part;
    int64_t number = 0;
    for (unsigned place = 0; !(result = read_part_at(found.index, place, &part)); place++) {
        if (part.part_position == found.part_position)
            return give(number, index);
        number += part.is_mig_device;
    }
    return result;
}

NVML_API nvmlDeviceGetBrand(nvmlDevice_t device, unsigned *brand)
{
    static const struct { const char *part; unsigned brand; } brands[] = {
        {"GeForce RTX", 15}, {"GeForce", 5}, {"Quadro RTX", 12}, {"Quadro", 1}, {"TITAN RTX", 16}, {"TITAN", 6},
        {"Tesla", 2}, {"NVIDIA RTX", 13}, {"", 14},
    };
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    unsigned number = 0;
    if (result)
        return result;
    while (!strstr(found.board.name, brands[number].part))
        number++;
    return give(brands[number].brand, brand);
}

NVML_API nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *architecture)
{
    static const char *const names[] = {
        "", "", "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell",
    };
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    if (result)
        return result;
    for (unsigned number = 2; number < sizeof names / sizeof *names; number++)
        if (strcasecmp(found.board.architecture, names[number]) == 0)
            return give(number, architecture);
    return give(NO_ID, architecture);
}

NVML_API nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    struct device found;
    nvmlReturn_t result = read_device(device, &found);
    if (result)
        return result;
    result = give(found.board.compute_major, (unsigned *)major);
    return result ? result : give(found.board.compute_minor, (unsigned *)minor);
}

nvmlReturn_t give_pci(const struct board *board, pci_info_t *info)
{
    if (!info)
        return INVALID_ARGUMENT;
    if (board->pci_domain == ABSENT || board->pci_bus == ABSENT || board->pci_device == ABSENT)
        return NOT_SUPPORTED;
    *info = (pci_info_t){
        .domain = (unsigned)board->pci_domain, .bus = (unsigned)board->pci_bus, .device = (unsigned)board->pci_device,
        .device_id = board->pci_device_id == ABSENT ? 0 : (unsigned)board->pci_device_id,
        .subsystem_id = board->pci_subsystem_id == ABSENT ? 0 : (unsigned)board->pci_subsystem_id,
    };
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", info->domain, info->bus & 0xFF, info->device & 0xFF);
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0", info->domain & 0xFFFF,
             info->bus & 0xFF, info->device & 0xFF);
    return SUCCESS;
}

static nvmlReturn_t pci_of(nvmlDevice_t device, pci_info_t *info, struct device *found)
{
    nvmlReturn_t result = read_device(device, found);
    return result ? result : give_pci(&found->board, info);
}

NVML_API nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, pci_info_t *info)
{
    struct device found;
    return pci_of(device, info, &found);
}

NVML_API nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, pci_info_v2_t *info)
{
    struct device found;
    pci_info_t whole;
    nvmlReturn_t result = pci_of(device, info ? &whole : NULL, &found);
    if (result == SUCCESS)
        memcpy(info, &whole, sizeof *info);
    return result;
}

NVML_API nvmlDeviceGetPciInfo(nvmlDevice_t device, pci_info_v2_t *info)
{
    return nvmlDeviceGetPciInfo_v2(device, info);
}

NVML_API nvmlDeviceGetPciInfoExt(nvmlDevice_t device, pci_info_ext_t *info)
{
    struct device found;
    pci_info_t whole;
    if (info && info->version != VERSION_OF(pci_info_ext_t, 1))
        return VERSION_MISMATCH;
    nvmlReturn_t result = pci_of(device, info ? &whole : NULL, &found);
    if (result)
        return result;
    info->domain = whole.domain;
    info->bus = whole.bus;
    info->device = whole.device;
    info->device_id = whole.device_id;
    info->subsystem_id = whole.subsystem_id;
    info->base_class = (unsigned)found.board.pci_base_class;
    info->sub_class = (unsigned)found.board.pci_sub_class;
    memcpy(info->bus_id, whole.bus_id, sizeof info->bus_id);
    return SUCCESS;
}

NVML_API nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned *id)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(found.board.pci_domain * 65536 + found.board.pci_bus * 256 + found.board.pci_device, id);
}

NVML_API nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned *is_multi)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(0, is_multi);
}

NVML_API nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int *is_same)
{
    struct device first, second;
    nvmlReturn_t result = read_board(one, &first);
    if (!result)
        result = read_board(other, &second);
    return result ? result : give(first.index == second.index, (unsigned *)is_same);
}

NVML_API nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *mode)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    return result ? result : give(0, mode);
}
