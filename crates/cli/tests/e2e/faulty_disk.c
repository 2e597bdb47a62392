// Loaded into a server: each sync of a file takes as many milliseconds longer as the file that SLOW_DISK_FILE names says.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void wait_as_told(void) {
    const char *path = getenv("SLOW_DISK_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    long ms = 0;
    if (!file) return;
    if (fscanf(file, "%ld", &ms) == 1 && ms > 0) {
        struct timespec span = {ms / 1000, (ms % 1000) * 1000000};
        nanosleep(&span, NULL);
    }
    fclose(file);
}

int fsync(int fd) {
    wait_as_told();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd) {
    wait_as_told();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
