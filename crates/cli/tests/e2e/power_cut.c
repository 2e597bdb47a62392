// Takes an ext4 file system's power: what was not synced by now never gets to its disk. The file system is dead from then on.
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define EXT4_IOC_SHUTDOWN _IOR('X', 125, __u32)
#define WITHOUT_FLUSHING_ITS_JOURNAL 2

int main(int count, char **arguments) {
    __u32 how = WITHOUT_FLUSHING_ITS_JOURNAL;
    int dir = count == 2 ? open(arguments[1], O_RDONLY) : -1;
    if (dir >= 0 && ioctl(dir, EXT4_IOC_SHUTDOWN, &how) == 0) return 0;
    perror("power cut");
    return 1;
}
