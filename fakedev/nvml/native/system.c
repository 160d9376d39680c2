/* The driver, and what concerns no single board; what programs may not change. */
#include <stdio.h>
#include <string.h>

#include "session.h"

NVML_API nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    struct node node;
    nvmlReturn_t result = read_node(&node);
    return result ? result : give_text(node.driver_version, version, length);
}

NVML_API nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    struct node node;
    char text[sizeof node.driver_version + 24];
    nvmlReturn_t result = read_node(&node);
    if (result)
        return result;
    if (node.cuda_version == ABSENT)
        return give_text(node.driver_version, version, length);
    snprintf(text, sizeof text, "%d.%s", (int)(node.cuda_version / 1000), node.driver_version);
    return give_text(text, version, length);
}

/* Also without a driver that is loaded, as on real machines, but here only the service knows it. */
NVML_API nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    struct node node;
    nvmlReturn_t result = read_node(&node);
    return result ? result : give(node.cuda_version, (unsigned *)version);
}

NVML_API nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML_API nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    struct device found;
    nvmlReturn_t result = read_board(device, &found);
    if (!result && (found.board.gsp_mode == ABSENT || !found.board.gsp_mode))
        result = NOT_SUPPORTED;
    return result ? result : nvmlSystemGetDriverVersion(version, 80);
}

/* There are none of these. */
#define NONE(name)                                      \
    name(unsigned *count)                               \
    {                                                   \
        struct node node;                               \
        nvmlReturn_t result = read_node(&node);         \
        return result ? result : give(0, count);        \
    }

NVML_API NONE(nvmlUnitGetCount)
NVML_API NONE(nvmlGetExcludedDeviceCount)
NVML_API NONE(nvmlGetBlacklistDeviceCount)
NVML_API NONE(nvmlSystemGetHicVersion)

/* Nothing can be changed from here: faults and settings of the service do that. */
#define REFUSE(name)                                        \
    name(nvmlDevice_t device)                               \
    {                                                       \
        struct device found;                                \
        nvmlReturn_t result = read_device(device, &found);  \
        return result ? result : NO_PERMISSION;             \
    }

NVML_API REFUSE(nvmlDeviceSetMemoryLockedClocks)
NVML_API REFUSE(nvmlDeviceResetMemoryLockedClocks)
NVML_API REFUSE(nvmlDeviceSetApplicationsClocks)
NVML_API REFUSE(nvmlDeviceResetApplicationsClocks)
NVML_API REFUSE(nvmlDeviceSetComputeMode)
NVML_API REFUSE(nvmlDeviceSetEccMode)
NVML_API REFUSE(nvmlDeviceClearEccErrorCounts)
NVML_API REFUSE(nvmlDeviceSetAccountingMode)

NVML_TEXT nvmlErrorString(nvmlReturn_t result)
{
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires restart", "The operating system has blocked the request.",
        "RM has detected an NVML/RM version mismatch.", "GPU is currently in use", "Insufficient Memory", "No data",
        "ECC is enabled with vGPU", "Insufficient resources", "Frequency not supported", "Argument version mismatch",
        "Deprecated", "Not ready", "GPU not found", "Invalid state", "Reset type not supported",
    };
    return result >= 0 && (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "Unknown Error";
}
