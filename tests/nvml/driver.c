/* Calls the library as programs do: on bad files, from many threads, and while its file is cut. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"

#define ENTRIES 512
#define LENGTH 100

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, memory_v2_t *memory);
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *a, unsigned *b, unsigned *c, unsigned *d);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *power);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, process_v2_t *entries);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, process_sample_t *s, unsigned *count, unsigned long long t);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, field_t *fields);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length);
nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t d, unsigned memory, unsigned *count, unsigned *clocks);
nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t d, unsigned *count, unsigned *clocks);
nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t d, unsigned c, unsigned *n, unsigned long long *a, unsigned long long *t);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *state);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, pci_info_t *info);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, pci_info_t *info);
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned *brand);
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *architecture);
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long *set);
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned size, unsigned long *set, unsigned scope);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, unsigned index, unsigned *status);
nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, unsigned object, char *version, unsigned length);
nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t device, unsigned *speed);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, attributes_t *attributes);
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length);
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length);
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, event_data_t *data, unsigned timeout);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
nvmlReturn_t nvmlGpmSampleAlloc(void **sample);
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, void *sample);
nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned instance, void *sample);
nvmlReturn_t nvmlGpmSampleFree(void *sample);

#ifdef memcpy
/* The library is compiled with -Dmemcpy=slow_memcpy: some copies take longer than two ticks. */
void *slow_memcpy(void *to, const void *from, size_t size)
{
    static _Thread_local unsigned calls;
    size_t pause = ++calls % 4 ? size : calls * 8 % size;
    for (size_t place = 0; place < size; place++) {
        if (place == pause)
            nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
        ((volatile char *)to)[place] = ((const volatile char *)from)[place];
    }
    return to;
}
#endif

static void ask(nvmlDevice_t device)
{
    char text[LENGTH];
    unsigned numbers[ENTRIES], count;
    unsigned long set[4];
    unsigned long long addresses[ENTRIES], times[ENTRIES];
    memory_v2_t memory = {.version = VERSION_OF(memory_v2_t, 2)};
    process_v2_t processes[ENTRIES];
    process_sample_t samples[ENTRIES];
    field_t fields[300];
    pci_info_t pci;
    attributes_t attributes;
    nvmlDevice_t other;
    void *sample;
    nvmlDeviceGetMemoryInfo_v2(device, &memory);
    nvmlDeviceGetRemappedRows(device, &numbers[0], &numbers[1], &numbers[2], &numbers[3]);
    nvmlDeviceGetPowerUsage(device, numbers);
    nvmlDeviceGetBrand(device, numbers);
    nvmlDeviceGetArchitecture(device, numbers);
    nvmlDeviceGetPcieSpeed(device, numbers);
    nvmlDeviceGetIndex(device, numbers);
    nvmlDeviceGetAttributes_v2(device, &attributes);
    if (!nvmlDeviceGetUUID(device, text, sizeof text))
        nvmlDeviceGetHandleByUUID(text, &other);
    nvmlDeviceGetHandleBySerial("1", &other);
    nvmlDeviceGetName(device, text, sizeof text);
    nvmlDeviceGetInforomVersion(device, 1, text, 3);
    nvmlDeviceGetPciInfo_v3(device, &pci);
    nvmlDeviceGetCpuAffinity(device, 4, set);
    nvmlDeviceGetMemoryAffinity(device, 4, set, 0);
    for (count = 0; count < 300; count++)
        fields[count] = (field_t){.id = count, .scope = count % 20};
    nvmlDeviceGetFieldValues(device, 300, fields);
    count = ENTRIES;
    nvmlDeviceGetSupportedMemoryClocks(device, &count, numbers);
    count = ENTRIES;
    nvmlDeviceGetSupportedGraphicsClocks(device, 2619, &count, numbers);
    count = ENTRIES;
    nvmlDeviceGetRetiredPages_v2(device, 1, &count, addresses, times);
    count = ENTRIES;
    nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes);
    count = ENTRIES;
    nvmlDeviceGetProcessUtilization(device, samples, &count, 0);
    for (unsigned link = 0; link < 20; link++) {
        nvmlDeviceGetNvLinkState(device, link, numbers);
        nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &pci);
    }
    nvmlDeviceGetP2PStatus(device, device, 2, numbers);
    if (!nvmlGpmSampleAlloc(&sample)) {
        nvmlGpmSampleGet(device, sample);
        nvmlGpmMigSampleGet(device, 1, sample);
        nvmlGpmSampleFree(sample);
    }
}

/* All that a program may ask of a file; how the initialisation ended. */
static nvmlReturn_t ask_all(const char *file)
{
    unsigned count = 0;
    char text[LENGTH];
    nvmlDevice_t device, instance;
    nvmlEventSet_t set;
    event_data_t data;
    setenv("FAKEDEV_NVML_FILE", file, 1);
    nvmlReturn_t result = nvmlInit_v2();
    if (result)
        return result;
    nvmlDeviceGetCount_v2(&count);
    nvmlSystemGetDriverVersion(text, sizeof text);
    nvmlSystemGetNVMLVersion(text, sizeof text);
    nvmlSystemGetProcessName(5315687, text, sizeof text);
    int has_set = !nvmlEventSetCreate(&set);
    for (unsigned index = 0; index < count && index < 20; index++) {
        if (nvmlDeviceGetHandleByIndex_v2(index, &device))
            continue;
        ask(device);
        if (has_set)
            nvmlDeviceRegisterEvents(device, 8, set);
        for (unsigned part = 0; part < 8 && !nvmlDeviceGetMigDeviceHandleByIndex(device, part, &instance); part++)
            ask(instance);
    }
    if (has_set) {
        nvmlEventSetWait_v2(set, &data, 0);
        nvmlEventSetFree(set);
    }
    nvmlShutdown();
    return result;
}

static long per_thread;

/* The file's writer gives all quantities of a board the same number: any difference is a torn value. */
static void *look_for_torn(void *unused)
{
    long torn = 0;
    nvmlDevice_t device;
    memory_v2_t memory = {.version = VERSION_OF(memory_v2_t, 2)};
    unsigned a, b, c, d;
    (void)unused;
    for (long call = 0; call < per_thread; call++) {
        if (nvmlDeviceGetHandleByIndex_v2((unsigned)call % 8, &device) || nvmlDeviceGetMemoryInfo_v2(device, &memory) ||
            nvmlDeviceGetRemappedRows(device, &a, &b, &c, &d))
            torn += 1000000;
        else if (memory.total != memory.free || memory.free != memory.used || memory.used != memory.reserved)
            torn++;
        else if (a != b || b != c || c != d)
            torn++;
    }
    return (void *)torn;
}

static int threads(const char *file, int count)
{
    pthread_t all[64];
    long torn = 0;
    void *own;
    setenv("FAKEDEV_NVML_FILE", file, 1);
    if (nvmlInit_v2())
        return 2;
    for (int number = 0; number < count; number++)
        pthread_create(&all[number], NULL, look_for_torn, NULL);
    for (int number = 0; number < count; number++) {
        pthread_join(all[number], &own);
        torn += (long)own;
    }
    printf("%ld\n", torn);
    nvmlShutdown();
    return torn != 0;
}

/* Cut the file that is in use: calls find no service. */
static int cut(const char *file)
{
    nvmlDevice_t device;
    unsigned power;
    setenv("FAKEDEV_NVML_FILE", file, 1);
    if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) || truncate(file, 100))
        return 2;
    nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    return nvmlDeviceGetPowerUsage(device, &power) == DRIVER_NOT_LOADED ? 0 : 1;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Processor time of an initialisation and of a call. */
static int measure(const char *file)
{
    nvmlDevice_t device;
    unsigned power;
    setenv("FAKEDEV_NVML_FILE", file, 1);
    double began = seconds();
    if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device))
        return 2;
    double ready = seconds();
    for (int call = 0; call < 1000000; call++)
        nvmlDeviceGetPowerUsage(device, &power);
    printf("init %.3f ms, a call %.3f us\n", (ready - began) * 1e3, seconds() - ready);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "threads") == 0) {
        per_thread = atol(arguments[3]);
        return threads(arguments[2], 8);
    }
    if (count == 3 && strcmp(arguments[1], "cut") == 0)
        return cut(arguments[2]);
    if (count == 3 && strcmp(arguments[1], "measure") == 0)
        return measure(arguments[2]);
    for (int place = 1; place < count; place++)
        printf("%d\n", ask_all(arguments[place]));
    return 0;
}
