/* A disk that writes down what is done to it, for tests: loaded with LD_PRELOAD it records every change below a folder.
 *
 * RECORDED names the folder, RECORD the file to which records are appended, each with one write: a head, the name of
 * the file inside the folder, and octets. A record is written when the call has returned, before the next begins. Files
 * that end in -shm, SQLite's shared memory, are left out: nothing relies on what of them is on a disk.
 *
 * DIE_AT, if it is set, is the number of the record of this process at which it is killed; DIE_BEFORE_SYNC the number
 * of the synchronisation before which it is killed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct __attribute__((packed)) head {
    char kind;
    uint32_t name_size;
    uint64_t at;
    uint32_t size;
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static int record = -1;
static long records_left, syncs_left;

static long number_of(const char *variable) {
    const char *found = getenv(variable);

    return found == NULL ? 0 : atol(found);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("RECORD");

    folder = getenv("RECORDED");
    if (folder != NULL && path != NULL)
        record = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    records_left = number_of("DIE_AT");
    syncs_left = number_of("DIE_BEFORE_SYNC");
}

/* Returns the name of a file in the folder, "" for the folder itself; NULL for others and those of folders in it. */
static const char *inside(const char *path) {
    size_t size, length;

    if (record < 0)
        return NULL;
    size = strlen(folder);
    length = strlen(path);
    if (strncmp(path, folder, size) != 0 || (path[size] != '/' && path[size] != 0))
        return NULL;
    if ((length > 4 && strcmp(path + length - 4, "-shm") == 0) || strstr(path, " (deleted)") != NULL)
        return NULL;
    if (path[size] == 0)
        return "";
    return strchr(path + size + 1, '/') == NULL ? path + size + 1 : NULL;
}

static const char *name_of(int fd, char *path, size_t room) {
    char link[64];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, room - 1);
    if (length < 0)
        return NULL;
    path[length] = 0;
    return inside(path);
}

/* Kills this process when so many are counted. */
static void count(long *left) {
    if (*left > 0 && --*left == 0)
        kill(getpid(), SIGKILL);
}

static void note(char kind, const char *name, uint64_t at, const void *octets, size_t size) {
    struct head head = {kind, (uint32_t)strlen(name), at, (uint32_t)size};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)name, strlen(name)}, {(void *)octets, size}};
    int number = errno;

    if (writev(record, parts, 3) != (ssize_t)(sizeof head + head.name_size + size))
        abort();
    count(&records_left);
    errno = number;
}

/* Do a call, and write down its change if it has made one; `sized` is whether it says how much of the octets counts. */
#define RECORDED_CALL(result_type, call, kind, fd, at, octets, sized)                                                  \
    char path[4096];                                                                                                   \
    int before = errno;                                                                                                \
    const char *name = name_of(fd, path, sizeof path);                                                                 \
    result_type result;                                                                                                \
    errno = before;                                                                                                    \
    if (name == NULL)                                                                                                  \
        return call;                                                                                                   \
    pthread_mutex_lock(&turn);                                                                                         \
    if (kind == 'S')                                                                                                   \
        count(&syncs_left);                                                                                            \
    result = call;                                                                                                     \
    if (result >= 0)                                                                                                   \
        note(kind, name, at, octets, sized ? (size_t)result : 0);                                                      \
    pthread_mutex_unlock(&turn);                                                                                       \
    return result;

#define SYNC(function)                                                                                                 \
    int function(int fd) { RECORDED_CALL(int, REAL(function)(fd), 'S', fd, 0, "", 0) }

#define CUT(function, offset)                                                                                          \
    int function(int fd, offset size) { RECORDED_CALL(int, REAL(function)(fd, size), 'L', fd, (uint64_t)size, "", 0) }

#define WRITE_AT(function, offset)                                                                                     \
    ssize_t function(int fd, const void *octets, size_t size, offset at) {                                             \
        RECORDED_CALL(ssize_t, REAL(function)(fd, octets, size, at), 'W', fd, (uint64_t)at, octets, 1)                 \
    }

SYNC(fsync)
SYNC(fdatasync)
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)
WRITE_AT(pwrite, off_t)
WRITE_AT(pwrite64, off64_t)

/* Make a hole, and write down that there are zeros. */
int fallocate(int fd, int mode, off_t at, off_t size) {
    char path[4096];
    const char *name = name_of(fd, path, sizeof path);
    void *zeros;
    int result;

    pthread_mutex_lock(&turn);
    result = REAL(fallocate)(fd, mode, at, size);
    if (name != NULL && result == 0) {
        zeros = calloc(1, (size_t)size);
        note('W', name, (uint64_t)at, zeros, (size_t)size);
        free(zeros);
    }
    pthread_mutex_unlock(&turn);
    return result;
}

ssize_t write(int fd, const void *octets, size_t size) {
    RECORDED_CALL(ssize_t, REAL(write)(fd, octets, size), 'W', fd, (uint64_t)lseek(fd, 0, SEEK_CUR) - (uint64_t)result,
                  octets, 1)
}

/* Open, and write down that a file was made or emptied. */
#define OPEN(function)                                                                                                 \
    int function(const char *path, int flags, ...) {                                                                   \
        va_list rest;                                                                                                  \
        mode_t mode = 0;                                                                                               \
        const char *name = inside(path);                                                                               \
        int is_new, fd;                                                                                                \
                                                                                                                       \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                                           \
            va_start(rest, flags);                                                                                     \
            mode = va_arg(rest, mode_t);                                                                               \
            va_end(rest);                                                                                              \
        }                                                                                                              \
        if (name == NULL || !(flags & (O_CREAT | O_TRUNC)))                                                            \
            return REAL(function)(path, flags, mode);                                                                  \
        pthread_mutex_lock(&turn);                                                                                     \
        is_new = access(path, F_OK) != 0;                                                                              \
        fd = REAL(function)(path, flags, mode);                                                                        \
        if (fd >= 0 && (is_new || (flags & O_TRUNC)))                                                                  \
            note(is_new ? 'C' : 'L', name, 0, "", 0);                                                                  \
        pthread_mutex_unlock(&turn);                                                                                   \
        return fd;                                                                                                     \
    }

OPEN(open)
OPEN(open64)

int unlink(const char *path) {
    const char *name = inside(path);
    int result;

    if (name == NULL)
        return REAL(unlink)(path);
    pthread_mutex_lock(&turn);
    result = REAL(unlink)(path);
    if (result == 0)
        note('U', name, 0, "", 0);
    pthread_mutex_unlock(&turn);
    return result;
}

int rename(const char *path, const char *other) {
    const char *name = inside(path), *to = inside(other);
    int result;

    if (name == NULL || to == NULL)
        return REAL(rename)(path, other);
    pthread_mutex_lock(&turn);
    result = REAL(rename)(path, other);
    if (result == 0)
        note('R', name, 0, to, strlen(to));
    pthread_mutex_unlock(&turn);
    return result;
}
