/* What the library could not answer, for users who run programs that were not tried: FILE.unanswered has a line for each
   call and process, up to a size. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map.h"

#define PATH_BYTES 4096
#define NAME_BYTES 32

static void read_program(char *name, size_t size)
{
    ssize_t length = -1;
    int descriptor = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        length = read(descriptor, name, size - 1);
        close(descriptor);
    }
    name[length > 0 ? length : 0] = 0;
    name[strcspn(name, "\n\t")] = 0;
}

void tell_unanswered(const char *call, int *is_told)
{
    char path[PATH_BYTES], program[NAME_BYTES], line[256];
    struct stat status;
    if (__atomic_exchange_n(is_told, 1, __ATOMIC_RELAXED))
        return;
    find_path(path, sizeof path - sizeof UNANSWERED_SUFFIX);
    /* Without the service's file there is no driver, and nothing is written. */
    if (stat(path, &status))
        return;
    strcat(path, UNANSWERED_SUFFIX);
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (descriptor < 0)
        return;
    if (!fstat(descriptor, &status) && S_ISREG(status.st_mode) && status.st_size < UNANSWERED_BYTES) {
        read_program(program, sizeof program);
        int length = snprintf(line, sizeof line, "%s\t%s\n", call, program);
        if (length > 0 && length < (int)sizeof line && write(descriptor, line, (size_t)length) < 0) {
            /* A full disk: nobody is told. */
        }
    }
    close(descriptor);
}
