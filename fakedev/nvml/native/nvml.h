/* The part of NVML's interface that the library answers: numbers, and structures as programs lay them out. */
#ifndef FAKEDEV_NVML_H
#define FAKEDEV_NVML_H

#include <stdint.h>

typedef int nvmlReturn_t;
typedef void *nvmlDevice_t;
typedef void *nvmlEventSet_t;
typedef void *nvmlGpuInstance_t;
typedef void *nvmlComputeInstance_t;

#define NVML_API __attribute__((visibility("default"))) nvmlReturn_t
#define NVML_TEXT __attribute__((visibility("default"))) const char *

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    NO_MEMORY = 20,
    VERSION_MISMATCH = 25,
    UNKNOWN_ERROR = 999,
};

/* The version of a structure: its size, and a number. */
#define VERSION_OF(type, number) ((unsigned)(sizeof(type) | ((unsigned)(number) << 24)))
/* An id that there is not. */
#define NO_ID 0xFFFFFFFFu

typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_info_t;
typedef struct { char bus_id_legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; } pci_info_v2_t;
typedef struct {
    unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char bus_id[32];
} pci_info_ext_t;
typedef struct { unsigned pid; unsigned long long memory; } process_v1_t;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process_v2_t;
typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
    unsigned long long protected_memory;
} process_detail_t;
typedef struct { unsigned version, mode, count; process_detail_t *entries; } process_details_t;
typedef struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } process_sample_t;
typedef struct { unsigned long long time; unsigned pid, sm, memory, encoder, decoder, jpeg, ofa; } process_usage_t;
typedef struct { unsigned version, count; unsigned long long last_seen; process_usage_t *entries; } process_usages_t;
typedef union { double d; int si; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; } value_t;
typedef struct { unsigned id, scope; long long time, latency; unsigned type; nvmlReturn_t result; value_t value; } field_t;
typedef struct { unsigned long long time; value_t value; } sample_t;
typedef struct { unsigned long long reference, violation; } violation_t;
typedef struct { unsigned version, sensor; int temperature; } temperature_t;
typedef struct { unsigned version; int margin; } margin_t;
typedef struct { unsigned long long l1, l2, memory, registers; } ecc_counts_t;
typedef struct {
    unsigned version;
    unsigned long long aggregate_parity, aggregate_secded, aggregate_corrected;
    unsigned long long volatile_parity, volatile_secded, volatile_corrected;
    unsigned long long l2, sm, pcie, mcu, other;
    unsigned threshold_exceeded;
} sram_status_t;
typedef struct { unsigned max, high, partial, low, none; } histogram_t;
typedef struct { unsigned char cluster[16]; nvmlReturn_t status; unsigned clique, state; } fabric_t;
typedef struct { unsigned version; unsigned char cluster[16]; nvmlReturn_t status; unsigned clique, state, health; } fabric_v2_t;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    nvmlReturn_t status;
    unsigned clique, state, health;
    unsigned char summary;
} fabric_v3_t;
typedef struct {
    unsigned version;
    unsigned char ib_guid[16], chassis[16], slot, tray, host, peer_type, module;
} platform_t;
typedef struct { unsigned version, value; } version_and_value_t;
typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
} attributes_t;
typedef struct { unsigned start, size; } placement_t;
typedef struct {
    unsigned id, is_p2p_supported, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, ofa;
    unsigned long long memory_mb;
} gpu_profile_t;
typedef struct {
    unsigned version, id, is_p2p_supported, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, ofa;
    unsigned long long memory_mb;
    char name[96];
} gpu_profile_v2_t;
typedef struct {
    unsigned version, id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, ofa;
    unsigned long long memory_mb;
    char name[96];
    unsigned capabilities;
} gpu_profile_v3_t;
typedef struct { nvmlDevice_t device; unsigned id, profile; placement_t placement; } gpu_instance_t;
typedef struct { unsigned id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, ofa; } compute_profile_t;
typedef struct { unsigned version; compute_profile_t profile; char name[96]; } compute_profile_v2_t;
typedef struct { unsigned version; compute_profile_t profile; char name[96]; unsigned capabilities; } compute_profile_v3_t;
typedef struct { nvmlDevice_t device; nvmlGpuInstance_t instance; unsigned id, profile; placement_t placement; } compute_instance_t;
typedef struct { unsigned long long total, free, used; } bar1_t;
typedef struct { unsigned version; unsigned long long value; } pdi_t;
typedef struct { unsigned version, channel, tpc; } repair_t;
typedef struct {
    nvmlDevice_t device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} event_data_t;
typedef struct { unsigned sessions, fps, latency; } fbc_stats_t;
typedef struct { unsigned id; nvmlReturn_t result; double value; char *names[3]; } gpm_metric_t;
typedef struct { unsigned version, count; void *first, *second; gpm_metric_t metrics[]; } gpm_request_t;

/* Note that a function of the driver was called that is not simulated: once in a process, which is_told remembers. */
void tell_unanswered(const char *call, int *is_told);

_Static_assert(sizeof(memory_v2_t) == 40 && sizeof(pci_info_t) == 68 && sizeof(pci_info_v2_t) == 36, "sizes");
_Static_assert(sizeof(process_v1_t) == 16 && sizeof(process_v2_t) == 24 && sizeof(process_sample_t) == 32, "sizes");
_Static_assert(sizeof(field_t) == 40 && sizeof(event_data_t) == 32 && sizeof(temperature_t) == 12, "sizes");

#endif
