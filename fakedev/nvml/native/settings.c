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

/* The longest time that the service may take for each step; and where its answer comes with a tick. */
#define WAIT_SECONDS 1
#define TICK_SECONDS 20
#define LINE_BYTES 512

typedef struct { unsigned version, scope, milliwatts; } power_value_t;

/* Send a line, and read the number that is the answer; one may follow after a colon. */
static nvmlReturn_t ask(const char *path, const char *line, int seconds, int64_t *second)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = seconds};
    char answer[32] = "";
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
             recv(descriptor, answer, sizeof answer - 1, 0) > 0) {
        char *rest;
        result = (nvmlReturn_t)strtol(answer, &rest, 10);
        if (second && *rest == ':')
            *second = strtol(rest + 1, NULL, 10);
    }
    close(descriptor);
    return result;
}

/* Send a line about a board: its first word, and what follows the board's name. */
static nvmlReturn_t ask_about(const struct device *device, const char *word, const char *rest, int seconds, int64_t *second)
{
    const struct map *map;
    struct node node;
    struct head head;
    char line[LINE_BYTES];
    nvmlReturn_t result = read_node(&node);
    if (!result)
        result = session_enter(&map);
    if (result)
        return result;
    head = *map_head(map);
    session_leave();
    end_texts_of_head(&head);
    snprintf(line, sizeof line, "%s %s %d %s\n", word, node.name, (int)device->board.index, rest);
    return ask(head.control_socket, line, seconds, second);
}

static nvmlReturn_t change(nvmlDevice_t device, const char *what, unsigned number)
{
    struct device found;
    char rest[64];
    nvmlReturn_t result = read_board(device, &found);
    snprintf(rest, sizeof rest, "%s %u", what, number);
    return result ? result : ask_about(&found, "set", rest, WAIT_SECONDS, NULL);
}

nvmlReturn_t divide(const struct device *device, const char *step, int64_t *id)
{
    return ask_about(device, "mig", step, TICK_SECONDS, id);
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
