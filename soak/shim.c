/* What a process does to the files of one folder: logged, and made to fail when asked. See shim.py.

   Loaded with LD_PRELOAD before the C library. SOAK_FOLDER names the folder, SOAK_LOG a file outside it. Every
   call is done and logged under one lock, so that the log has them in the order in which they took effect: a write
   that stands before an fsync in the log was done before that fsync began. Without SOAK_LOG nothing is logged.

   A record is a header (kind, handle, offset, bytes that follow) and those bytes. A handle stands for one open(). */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST_FILES 65536

struct header {
    uint32_t kind, handle;
    int64_t offset;
    uint64_t n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t handles[MOST_FILES]; /* by descriptor; 0 for a file elsewhere */
static uint32_t n_handles;
static char folder[PATH_MAX];
static size_t folder_length;
static int log_file = -1;

static char fault_call; /* the kind of call that is to fail, 0 for none */
static long fault_after;
static int fault_error;  /* an errno, or 0 */
static int fault_half;   /* whether the first of them does half of what was asked */
static int fault_lasting;
static long n_fired;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("SOAK_FOLDER"), *log_name = getenv("SOAK_LOG");
    if (name == NULL || strlen(name) >= sizeof folder)
        return;
    folder_length = strlen(strcpy(folder, name));
    if (log_name != NULL) {
        int file = syscall(SYS_openat, AT_FDCWD, log_name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        log_file = fcntl(file, F_DUPFD_CLOEXEC, 1000); /* out of the way of a test that counts descriptors */
        syscall(SYS_close, file);
    }
}

/* Make a kind of call fail: 'w' pwrite and write, 's' fsync and fdatasync, 't' ftruncate, 'r' pread; 0 for none. */
void soak_arm(char call, long after, int error, int half, int lasting) {
    pthread_mutex_lock(&lock);
    fault_call = call, fault_after = after, fault_error = error, fault_half = half, fault_lasting = lasting;
    n_fired = 0;
    pthread_mutex_unlock(&lock);
}

/* How many calls have failed since. */
long soak_fired(void) {
    return n_fired;
}

static int is_inside(const char *path, char full[PATH_MAX]) {
    size_t length = 0;
    full[0] = 0;
    if (folder_length == 0 || path == NULL)
        return 0;
    if (path[0] != '/') {
        if (syscall(SYS_getcwd, full, PATH_MAX) < 0)
            return 0;
        length = strlen(full);
        full[length++] = '/';
    }
    if (length + strlen(path) >= PATH_MAX)
        return 0;
    strcpy(full + length, path);
    return strncmp(full, folder, folder_length) == 0 && (full[folder_length] == '/' || full[folder_length] == 0);
}

static void write_all(const void *data, size_t n) {
    const char *at = data;
    while (n > 0) {
        ssize_t done = syscall(SYS_write, log_file, at, n);
        if (done <= 0)
            abort(); /* a log with a hole would be worse than none */
        at += done, n -= (size_t)done;
    }
}

static void record(char kind, uint32_t handle, int64_t offset, const void *data, size_t n) {
    struct header header = {(uint32_t)kind, handle, offset, n};
    if (log_file < 0)
        return;
    write_all(&header, sizeof header);
    write_all(data, n);
}

static uint32_t handle_of(int file) {
    return file >= 0 && file < MOST_FILES ? handles[file] : 0;
}

/* Return the errno that this call fails with, or 0; it may have to do with half the bytes. The lock is held. */
static int fault(char call, size_t *n) {
    if (call != fault_call || fault_after-- > 0)
        return 0;
    fault_after = 0;
    n_fired++;
    if (!fault_lasting)
        fault_call = 0;
    if (fault_half && n_fired == 1 && *n > 1) {
        *n /= 2;
        return 0;
    }
    return fault_error;
}

static int opened(int at, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    int file;
    if (!(at == AT_FDCWD || (path != NULL && path[0] == '/')) || !is_inside(path, full))
        return syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    file = syscall(SYS_openat, at, path, flags, mode);
    if (file >= 0 && file < MOST_FILES) {
        handles[file] = ++n_handles;
        record('o', n_handles, flags, full, strlen(full));
    }
    pthread_mutex_unlock(&lock);
    return file;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name)                                 \
    int name(const char *path, int flags, ...) {   \
        va_list rest;                              \
        va_start(rest, flags);                     \
        mode_t mode = mode_of(flags, rest);        \
        va_end(rest);                              \
        return opened(AT_FDCWD, path, flags, mode); \
    }
#define OPENAT(name)                                     \
    int name(int at, const char *path, int flags, ...) { \
        va_list rest;                                    \
        va_start(rest, flags);                           \
        mode_t mode = mode_of(flags, rest);              \
        va_end(rest);                                    \
        return opened(at, path, flags, mode);            \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int file) {
    if (!handle_of(file))
        return syscall(SYS_close, file);
    pthread_mutex_lock(&lock);
    handles[file] = 0;
    int outcome = syscall(SYS_close, file);
    pthread_mutex_unlock(&lock);
    return outcome;
}

/* Write at an offset, or where the file stands (offset -1). */
static ssize_t written(int file, const void *data, size_t n, int64_t offset) {
    uint32_t handle = handle_of(file);
    ssize_t done = -1;
    if (!handle)
        return offset < 0 ? syscall(SYS_write, file, data, n) : syscall(SYS_pwrite64, file, data, n, offset);
    pthread_mutex_lock(&lock);
    int error = fault('w', &n);
    if (!error)
        done = offset < 0 ? syscall(SYS_write, file, data, n) : syscall(SYS_pwrite64, file, data, n, offset);
    if (done > 0) {
        if (offset < 0)
            offset = syscall(SYS_lseek, file, 0, SEEK_CUR) - done;
        record('w', handle, offset, data, (size_t)done);
    }
    pthread_mutex_unlock(&lock);
    if (error)
        errno = error;
    return done;
}

ssize_t write(int file, const void *data, size_t n) {
    return written(file, data, n, -1);
}

ssize_t pwrite(int file, const void *data, size_t n, off_t offset) {
    return written(file, data, n, offset);
}

ssize_t pwrite64(int file, const void *data, size_t n, off64_t offset) {
    return written(file, data, n, offset);
}

ssize_t pread64(int file, void *data, size_t n, off64_t offset) {
    int error = 0;
    if (handle_of(file)) {
        pthread_mutex_lock(&lock);
        error = fault('r', &n);
        pthread_mutex_unlock(&lock);
    }
    if (!error)
        return syscall(SYS_pread64, file, data, n, offset);
    errno = error;
    return -1;
}

ssize_t pread(int file, void *data, size_t n, off_t offset) {
    return pread64(file, data, n, offset);
}

/* Do a call on an open file that takes at most a length, and log it. */
static int done_to(char kind, long call, int file, int64_t length) {
    uint32_t handle = handle_of(file);
    size_t nothing = 0;
    int outcome = -1;
    if (!handle)
        return syscall(call, file, length);
    pthread_mutex_lock(&lock);
    int error = fault(kind, &nothing);
    if (!error)
        outcome = syscall(call, file, length);
    if (outcome == 0)
        record(kind, handle, length, NULL, 0);
    pthread_mutex_unlock(&lock);
    if (error)
        errno = error;
    return outcome;
}

int ftruncate(int file, off_t length) {
    return done_to('t', SYS_ftruncate, file, length);
}

int ftruncate64(int file, off64_t length) {
    return done_to('t', SYS_ftruncate, file, length);
}

int fsync(int file) {
    return done_to('s', SYS_fsync, file, 0);
}

int fdatasync(int file) {
    return done_to('s', SYS_fdatasync, file, 0);
}

/* Names: made, changed and removed. */

int rename(const char *from, const char *to) {
    char names[2 * PATH_MAX], full[PATH_MAX];
    if (!is_inside(to, full) || !is_inside(from, names))
        return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    size_t n = strlen(names) + 1;
    strcpy(names + n, full);
    pthread_mutex_lock(&lock);
    int outcome = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (outcome == 0)
        record('n', 0, 0, names, n + strlen(full));
    pthread_mutex_unlock(&lock);
    return outcome;
}

int unlink(const char *path) {
    char full[PATH_MAX];
    if (!is_inside(path, full))
        return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    pthread_mutex_lock(&lock);
    int outcome = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (outcome == 0)
        record('u', 0, 0, full, strlen(full));
    pthread_mutex_unlock(&lock);
    return outcome;
}

int mkdir(const char *path, mode_t mode) {
    char full[PATH_MAX];
    if (!is_inside(path, full))
        return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    pthread_mutex_lock(&lock);
    int outcome = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (outcome == 0)
        record('m', 0, 0, full, strlen(full));
    pthread_mutex_unlock(&lock);
    return outcome;
}
