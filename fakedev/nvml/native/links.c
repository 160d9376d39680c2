/* NVLink, the fabric, and which boards and CPUs are near. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

enum { TO_GPU = 0, TO_SWITCH = 2, TO_UNKNOWN = 0xFF };
enum { SAME_SWITCH = 20, SAME_NODE = 40, OTHER_NODE = 50 };
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
#define P2P_NVLINK 2
enum { FABRIC_UNKNOWN = 0, FABRIC_HEALTHY = 1, FABRIC_UNHEALTHY = 2, FABRIC_LIMITED = 3 };

NVML_API nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned number, unsigned *is_active)
{
    struct device found;
    struct link link;
    nvmlReturn_t result = read_link(device, number, &found, &link);
    return result ? result : give(link.up, is_active);
}

NVML_API nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned number, unsigned *version)
{
    struct device found;
    struct link link;
    nvmlReturn_t result = read_link(device, number, &found, &link);
    return result ? result : give(found.board.link_generation, version);
}

NVML_API nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned number, unsigned capability, unsigned *out)
{
    struct device found;
    struct link link;
    nvmlReturn_t result = read_link(device, number, &found, &link);
    if (!result && capability > 5)
        result = INVALID_ARGUMENT;
    return result ? result : give(capability != 4, out); /* all but the bridge of SLI */
}

NVML_API nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned number, unsigned *type)
{
    struct device found;
    struct link link;
    nvmlReturn_t result = read_link(device, number, &found, &link);
    return result ? result : give(link.remote_board != ABSENT ? TO_GPU : link.switch_number != ABSENT ? TO_SWITCH : TO_UNKNOWN, type);
}

NVML_API nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned number, pci_info_t *info)
{
    struct device found;
    struct link link;
    nvmlReturn_t result = read_link(device, number, &found, &link);
    if (result)
        return result;
    if (link.remote_board == ABSENT)
        return NOT_SUPPORTED; /* the addresses of switches are not simulated */
    return read_other_board(link.remote_board, &found) ? NOT_SUPPORTED : give_pci(&found.board, info);
}

/* Whether a link of one board leads to the other one, or links of both to switches. */
static int are_linked(nvmlDevice_t one, nvmlDevice_t other)
{
    struct device first, second;
    struct link link;
    if (read_board(one, &first) || read_board(other, &second))
        return 0;
    for (unsigned number = 0; !read_link(one, number, &first, &link); number++)
        if (link.up == 1 && (link.remote_board == second.position || (link.switch_number != ABSENT && second.board.link_count)))
            return 1;
    return 0;
}

NVML_API nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, unsigned index, unsigned *status)
{
    struct device first, second;
    nvmlReturn_t result = read_board(one, &first);
    if (!result)
        result = read_board(other, &second);
    if (!result && index > 5)
        result = INVALID_ARGUMENT;
    if (result)
        return result;
    return give(index != P2P_NVLINK || are_linked(one, other) ? P2P_OK : P2P_NOT_SUPPORTED, status);
}

NVML_API nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned *level)
{
    struct device first, second;
    nvmlReturn_t result = read_board(one, &first);
    if (!result)
        result = read_board(other, &second);
    if (result)
        return result;
    if (first.index == second.index)
        return give(0, level);
    if (first.board.pcie_switch != ABSENT && first.board.pcie_switch == second.board.pcie_switch)
        return give(SAME_SWITCH, level);
    return give(first.board.numa_node == second.board.numa_node ? SAME_NODE : OTHER_NODE, level);
}

/* Set the bits of the CPUs of a text such as 0-55,112-167, as far as the set has them. */
static nvmlReturn_t set_bits(const char *text, unsigned size, unsigned long *set)
{
    const unsigned bits = 8 * sizeof *set;
    if (!set || !size)
        return INVALID_ARGUMENT;
    if (!*text)
        return NOT_SUPPORTED;
    memset(set, 0, size * sizeof *set);
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long each = first; each <= last && each / bits < size; each++)
            set[each / bits] |= 1UL << each % bits;
        text = *end ? end + 1 : end;
    }
    return SUCCESS;
}

NVML_API nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned size, unsigned long *set, unsigned scope)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(scope > 1, device, &found);
    return result ? result : set_bits(found.board.cpu_affinity, size, set);
}

NVML_API nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long *set)
{
    return nvmlDeviceGetCpuAffinityWithinScope(device, size, set, 0);
}

NVML_API nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned size, unsigned long *set, unsigned scope)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(scope > 1, device, &found);
    return result ? result : set_bits(found.board.numa_affinity, size, set);
}

/* The bytes of the UUID of the cluster; of another text as many as it has digits for. */
static void set_cluster(const char *text, unsigned char *cluster)
{
    memset(cluster, 0, 16);
    for (int byte = 0; byte < 16 && isxdigit((unsigned char)text[0]) && isxdigit((unsigned char)text[1]); byte++) {
        sscanf(text, "%2hhx", &cluster[byte]);
        text += 2;
        text += *text == '-';
    }
}

NVML_API nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, fabric_t *info)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(!info, device, &found);
    if (result)
        return result;
    *info = (fabric_t){0};
    set_cluster(found.board.fabric_cluster, info->cluster);
    give(found.board.fabric_clique_id, &info->clique);
    return give(found.board.fabric_state, &info->state);
}

/* The health mask in a word: bad routes, timeouts and a wrong configuration are no health. */
static unsigned char summary_of(unsigned mask)
{
    if (!mask)
        return FABRIC_UNKNOWN;
    if (mask >> 8 > 1 || (mask >> 4 & 3) == 1 || (mask >> 6 & 3) == 1)
        return FABRIC_UNHEALTHY;
    return (mask & 3) == 1 ? FABRIC_LIMITED : FABRIC_HEALTHY;
}

NVML_API nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, fabric_v3_t *info)
{
    struct device found;
    if (info && info->version != VERSION_OF(fabric_v2_t, 2) && info->version != VERSION_OF(fabric_v3_t, 3))
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board_unless(!info, device, &found);
    if (result)
        return result;
    set_cluster(found.board.fabric_cluster, info->cluster);
    info->status = SUCCESS;
    info->clique = 0;
    info->health = found.board.fabric_health == ABSENT ? 0 : (unsigned)found.board.fabric_health;
    if (info->version == VERSION_OF(fabric_v3_t, 3))
        info->summary = summary_of(info->health);
    give(found.board.fabric_clique_id, &info->clique);
    return give(found.board.fabric_state, &info->state);
}

NVML_API nvmlDeviceGetPlatformInfo(nvmlDevice_t device, platform_t *info)
{
    struct device found;
    struct link link;
    if (info && info->version != VERSION_OF(platform_t, 2))
        return VERSION_MISMATCH;
    nvmlReturn_t result = read_board_unless(!info, device, &found);
    if (result)
        return result;
    if (found.board.platform_host_id == ABSENT)
        return NOT_SUPPORTED;
    int to_boards = !read_link(device, 0, &found, &link) && link.remote_board != ABSENT;
    *info = (platform_t){
        .version = info->version, .slot = (unsigned char)found.board.platform_slot_number,
        .tray = (unsigned char)found.board.platform_tray_index, .host = (unsigned char)found.board.platform_host_id,
        .module = (unsigned char)found.board.platform_module_id, .peer_type = to_boards ? 0 : 1,
    };
    memcpy(info->chassis, found.board.chassis_serial, sizeof info->chassis);
    /* From the highest byte, as InfiniBand writes it. */
    for (int byte = 0; byte < 8; byte++)
        info->ib_guid[byte] = (unsigned char)(found.board.platform_gpu_fabric_guid >> (56 - 8 * byte));
    return SUCCESS;
}
