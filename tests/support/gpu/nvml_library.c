/* A stand-in for libnvidia-ml.so.1: the functions that an agent calls, with NVML's own types.
 *
 * The GPUs are described in the file that NVML_STATE names, a line each:
 *     uuid serial mhz most_mhz causes celsius milliwatts most_milliwatts busy lost rows
 * It is read again at each call. A serial number of 0 means that the GPU has none; rows is 1 if a
 * row of its memory waits for a reset to be replaced, 2 if none can replace it. The file
 * NVML_STATE.xid holds the index of a GPU and an Xid, and is deleted once told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, TIMEOUT = 10, LOST = 15, MOST = 8 };

typedef struct {
    char uuid[96], serial[32];
    unsigned mhz, most_mhz, celsius, milliwatts, most_milliwatts;
    unsigned long long causes;
    unsigned busy;
    int lost, rows;
} Gpu;

typedef struct {
    void *device;
    unsigned long long kind, data;
    unsigned instance, compute_instance;
} Event;

typedef struct {
    unsigned gpu, memory; /* shares of time, in percent */
} Busy;

static char handles[MOST]; /* the address of one is the handle of a GPU */
static int registered[MOST];
static char state[4000]; /* the file, as NVML_STATE named it when the library was opened */

static int read_gpus(Gpu *gpus) {
    FILE *file = fopen(state, "r");
    int count = 0;
    if (!file) return 0;
    while (count < MOST) {
        Gpu *one = &gpus[count];
        if (fscanf(file, "%95s %31s %u %u %llu %u %u %u %u %d %d", one->uuid, one->serial, &one->mhz,
                   &one->most_mhz, &one->causes, &one->celsius, &one->milliwatts,
                   &one->most_milliwatts, &one->busy, &one->lost, &one->rows) != 11) break;
        count++;
    }
    fclose(file);
    return count;
}

static int find(void *handle, Gpu *found) {
    Gpu gpus[MOST];
    long index = (char *)handle - handles;
    int count = read_gpus(gpus);
    if (index < 0 || index >= count) return INVALID;
    *found = gpus[index];
    return found->lost ? LOST : SUCCESS;
}

#define NUMBER(name, type, field, ...)                   \
    int name(void *device, ##__VA_ARGS__, type *value) { \
        Gpu gpu;                                         \
        int code = find(device, &gpu);                   \
        if (code == SUCCESS) *value = gpu.field;         \
        return code;                                     \
    }

NUMBER(nvmlDeviceGetPowerUsage, unsigned, milliwatts)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, most_milliwatts)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, causes)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, causes) /* its newer name */
NUMBER(nvmlDeviceGetClockInfo, unsigned, mhz, int kind)
NUMBER(nvmlDeviceGetMaxClockInfo, unsigned, most_mhz, int kind)
NUMBER(nvmlDeviceGetTemperature, unsigned, celsius, int sensor)

int nvmlInit_v2(void) {
    const char *path = getenv("NVML_STATE");
    snprintf(state, sizeof state, "%s", path ? path : "");
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) { return flags ? INVALID : nvmlInit_v2(); }

int nvmlDeviceGetCount_v2(unsigned *count) {
    Gpu gpus[MOST];
    *count = (unsigned)read_gpus(gpus);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &handles[index];
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, Busy *busy) {
    Gpu gpu;
    int code = find(device, &gpu);
    if (code == SUCCESS) *busy = (Busy){gpu.busy, 0};
    return code;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *is_pending, unsigned *has_failed) {
    Gpu gpu;
    int code = find(device, &gpu);
    if (code != SUCCESS) return code;
    *corrected = 0;
    *uncorrected = gpu.rows != 0;
    *is_pending = gpu.rows == 1;
    *has_failed = gpu.rows == 2;
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    Gpu gpu;
    int code = find(device, &gpu);
    if (code == SUCCESS) snprintf(text, length, "%s", gpu.uuid);
    return code;
}

int nvmlDeviceGetSerial(void *device, char *text, unsigned length) {
    Gpu gpu;
    int code = find(device, &gpu);
    if (code == SUCCESS && strcmp(gpu.serial, "0") == 0) return NOT_SUPPORTED;
    if (code == SUCCESS) snprintf(text, length, "%s", gpu.serial);
    return code;
}

int nvmlEventSetCreate(void **set) {
    *set = registered;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long kinds, void *set) {
    long index = (char *)device - handles;
    if (set != registered) return INVALID;
    registered[index] = (kinds & 0x8) != 0;
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
    char path[4096];
    if (set != registered) return INVALID;
    snprintf(path, sizeof path, "%s.xid", state);
    for (unsigned waited = 0;; waited += 10) {
        FILE *file = fopen(path, "r");
        unsigned index = 0;
        unsigned long long xid = 0;
        int found = file && fscanf(file, "%u %llu", &index, &xid) == 2;
        if (file) fclose(file);
        if (found && index < MOST && registered[index]) {
            unlink(path);
            *event = (Event){&handles[index], 0x8, xid, 0, 0};
            return SUCCESS;
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(10000);
    }
}
