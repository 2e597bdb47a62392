// Loaded into a server. Each sync of a file takes as many milliseconds longer as the file that SLOW_DISK_FILE names says. From
// when on there is the file that DYING_DISK_FILE names, the process counts the steps by which it changes its disk, and is
// killed at the step of which the file says the number: before an even one, after an odd one. The next sync fails once there is
// the file that FAILING_DISK_FILE names, which is removed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long number_in(const char *variable) {
    const char *path = getenv(variable);
    FILE *file = path ? fopen(path, "r") : NULL;
    long number = 0;
    if (!file) return 0;
    if (fscanf(file, "%ld", &number) != 1) number = 0;
    fclose(file);
    return number;
}

static void wait_as_told(void) {
    long ms = number_in("SLOW_DISK_FILE");
    if (ms > 0) {
        struct timespec span = {ms / 1000, (ms % 1000) * 1000000};
        nanosleep(&span, NULL);
    }
}

static atomic_long steps;

// The number of the step that begins, and of the one to die at; both 0 for none.
static void begin_step(long *step, long *last) {
    *step = 0;
    *last = number_in("DYING_DISK_FILE");
    if (*last > 0) *step = atomic_fetch_add(&steps, 1) + 1;
    if (*last > 0 && *step == *last && *last % 2 == 0) kill(getpid(), SIGKILL);
}

static void end_step(long step, long last) {
    if (last > 0 && step == last) kill(getpid(), SIGKILL);
}

#define STEP(type, name, parameters, arguments)                                \
    type name parameters {                                                     \
        long step, last;                                                       \
        begin_step(&step, &last);                                              \
        type result = ((type(*) parameters)dlsym(RTLD_NEXT, #name)) arguments; \
        end_step(step, last);                                                  \
        return result;                                                         \
    }

STEP(ssize_t, pwrite64, (int fd, const void *bytes, size_t count, off_t at), (fd, bytes, count, at))
STEP(int, ftruncate64, (int fd, off_t bytes), (fd, bytes))
STEP(int, rename, (const char *from, const char *to), (from, to))
STEP(int, unlink, (const char *path), (path))

static int fails_once(void) {
    const char *path = getenv("FAILING_DISK_FILE");
    // Of several threads one removes it.
    return path && ((int (*)(const char *))dlsym(RTLD_NEXT, "unlink"))(path) == 0;
}

static int sync_with(const char *name, int fd) {
    long step, last;
    wait_as_told();
    if (fails_once()) {
        errno = EIO;
        return -1;
    }
    begin_step(&step, &last);
    int result = ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
    end_step(step, last);
    return result;
}

int fsync(int fd) { return sync_with("fsync", fd); }

int fdatasync(int fd) { return sync_with("fdatasync", fd); }
