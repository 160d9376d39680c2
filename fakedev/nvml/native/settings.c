/* What programs may change: the service is asked by its UNIX socket, and knows who asks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "session.h"

/* The longest time that the service may take for each step. */
#define WAIT_SECONDS 1
#define LINE_BYTES 512

typedef struct { unsigned version, scope, milliwatts; } power_value_t;

/* Send a line, and read the number that is the answer. */
static nvmlReturn_t ask(const char *path, const char *line)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = WAIT_SECONDS};
    char answer[16] = "";
    size_t length = strlen(line);
    if (!*path)
        return NO_PERMISSION;
    if (strlen(path) >= sizeof address.sun_path)
        return UNKNOWN_ERROR;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return UNKNOWN_ERROR;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    nvmlReturn_t result = TIMEOUT;
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address))
        result = errno == EACCES || errno == EPERM ? NO_PERMISSION : errno == EAGAIN ? TIMEOUT : DRIVER_NOT_LOADED;
    else if (send(descriptor, line, length, MSG_NOSIGNAL) == (ssize_t)length &&
             recv(descriptor, answer, sizeof answer - 1, 0) > 0)
        result = atoi(answer);
    close(descriptor);
    return result;
}

static nvmlReturn_t change(nvmlDevice_t device, const char *what, unsigned number)
{
    const struct map *map;
    struct device found;
    struct node node;
    struct head head;
    char line[LINE_BYTES];
    nvmlReturn_t result = read_board(device, &found);
    if (!result)
        result = read_node(&node);
    if (!result)
        result = session_enter(&map);
    if (result)
        return result;
    head = *map_head(map);
    session_leave();
    end_texts_of_head(&head);
    snprintf(line, sizeof line, "set %s %d %s %u\n", node.name, (int)found.board.index, what, number);
    return ask(head.control_socket, line);
}

/* In milliwatts; the limit that the board comes with gives up any other. */
NVML_API nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned limit)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (result)
        return result;
    if (found.board.power_limit == ABSENT)
        return NOT_SUPPORTED;
    if (limit < found.board.power_limit_min || limit > found.board.power_limit_max)
        return INVALID_ARGUMENT;
    return change(device, "power-limit", limit == found.board.power_limit_default ? 0 : limit);
}

NVML_API nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, const power_value_t *value)
{
    if (!value)
        return INVALID_ARGUMENT;
    if (value->version != VERSION_OF(power_value_t, 2))
        return VERSION_MISMATCH;
    return value->scope ? NOT_SUPPORTED : nvmlDeviceSetPowerManagementLimit(device, value->milliwatts);
}

/* Only the highest clock is locked. */
NVML_API nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned low, unsigned high)
{
    return high && low <= high ? change(device, "locked-clock", high) : INVALID_ARGUMENT;
}

NVML_API nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    return change(device, "locked-clock", 0);
}

/* It is what the configuration says. */
NVML_API nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned mode)
{
    struct device found;
    nvmlReturn_t result = read_board_unless(mode > 1, device, &found);
    return result ? result : found.board.persistence_mode == mode ? SUCCESS : NO_PERMISSION;
}
