/* A disk that fails, for tests: loaded with LD_PRELOAD it lets calls on a store's files fail while a file says so.
 *
 * FAILING names that file; in it are words: "sync" lets fsync and fdatasync fail, "write" lets writes fail, each with
 * EIO; "unreadable" lets reads fail so. "torn" lets half of a write through and then fails; "late" synchronises, and
 * says EIO then. "full" lets writes fail with ENOSPC, "only-read" writes and synchronising with EROFS. "slow" lets
 * synchronising take two seconds,
 * "stuck" as long as the word is there. "log" restricts them to the log, "file" to the file itself, "count" to the count
 * of transactions, "data" to the data file.
 *
 * CLOCK_OFF_S, if it is set, is by how many seconds the wall clock goes wrong; or, with @ before it, names a file where
 * that is said, once there is such a file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define SLOW_S 2

static int read_words(const char *path, char *words, size_t size) {
    int control = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (control < 0)
        return 0;
    length = read(control, words, size - 1);
    close(control);
    if (length < 0)
        return 0;
    words[length] = 0;
    return 1;
}

static int says(int fd, const char *word) {
    char link[64], path[4096], words[256];
    const char *switch_path = getenv("FAILING");
    ssize_t length;
    int is_log, is_count, is_data;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (switch_path == NULL || length < 0)
        return 0;
    path[length] = 0;
    is_count = strstr(path, "messages.commits") != NULL;
    is_data = strstr(path, "messages.data") != NULL;
    if ((strstr(path, "messages.sqlite") == NULL && !is_count && !is_data) || strstr(path, "-shm") != NULL)
        return 0;
    is_log = strstr(path, "-wal") != NULL;
    if (!read_words(switch_path, words, sizeof words))
        return 0;
    if ((strstr(words, "log") && !is_log) || (strstr(words, "file") && (is_log || is_count || is_data)))
        return 0;
    if ((strstr(words, "count") && !is_count) || (strstr(words, "data") && !is_data))
        return 0;
    return strstr(words, word) != NULL;
}

static int fail_with(int number) {
    errno = number;
    return -1;
}

static int fail(void) { return fail_with(EIO); }

#define SYNC(name)                                                                                                     \
    int name(int fd) {                                                                                                 \
        static int (*real)(int);                                                                                       \
        if (real == NULL)                                                                                              \
            real = (int (*)(int))dlsym(RTLD_NEXT, #name);                                                              \
        if (says(fd, "late")) {                                                                                        \
            real(fd);                                                                                                  \
            return fail();                                                                                             \
        }                                                                                                              \
        if (says(fd, "only-read"))                                                                                     \
            return fail_with(EROFS);                                                                                   \
        if (says(fd, "slow"))                                                                                          \
            sleep(SLOW_S);                                                                                             \
        while (says(fd, "stuck"))                                                                                      \
            usleep(10000);                                                                                             \
        return says(fd, "sync") ? fail() : real(fd);                                                                   \
    }

#define WRITE(name, offset_type)                                                                                       \
    ssize_t name(int fd, const void *octets, size_t size, offset_type at) {                                            \
        static ssize_t (*real)(int, const void *, size_t, offset_type);                                                \
        if (real == NULL)                                                                                              \
            real = (ssize_t(*)(int, const void *, size_t, offset_type))dlsym(RTLD_NEXT, #name);                        \
        if (says(fd, "torn")) {                                                                                        \
            real(fd, octets, size / 2, at);                                                                            \
            return fail();                                                                                             \
        }                                                                                                              \
        if (says(fd, "full"))                                                                                          \
            return fail_with(ENOSPC);                                                                                  \
        if (says(fd, "only-read"))                                                                                     \
            return fail_with(EROFS);                                                                                   \
        return says(fd, "write") ? fail() : real(fd, octets, size, at);                                                \
    }

#define READ(name, offset_type)                                                                                        \
    ssize_t name(int fd, void *octets, size_t size, offset_type at) {                                                  \
        static ssize_t (*real)(int, void *, size_t, offset_type);                                                      \
        if (real == NULL)                                                                                              \
            real = (ssize_t(*)(int, void *, size_t, offset_type))dlsym(RTLD_NEXT, #name);                              \
        return says(fd, "unreadable") ? fail() : real(fd, octets, size, at);                                           \
    }

SYNC(fsync)
SYNC(fdatasync)
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)
READ(pread, off_t)
READ(pread64, off64_t)

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    const char *off = getenv("CLOCK_OFF_S");
    char words[32];
    int result;

    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    result = real(clock, now);
    if (clock == CLOCK_REALTIME && off != NULL && off[0] == '@')
        off = read_words(off + 1, words, sizeof words) ? words : NULL;
    if (result == 0 && clock == CLOCK_REALTIME && off != NULL)
        now->tv_sec += atol(off);
    return result;
}
