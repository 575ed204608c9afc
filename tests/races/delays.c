/* Waits at random where a process talks to others or, if it runs Python, asks for the time, and hears of fewer of them at
 * once than it could: what a busy or a quick machine does by chance, more often. Preloaded.
 *
 * All of it is within what the kernel may do, so that a test that fails depends on who is first, or on how long
 * something takes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAITS = 30, CLOCKS = 3, ALONE = 300, LONGEST = 20 * 1000 * 1000 }; /* of 1,000 calls, and nanoseconds */

static const uint64_t STEP = 0x9E3779B97F4A7C15u;
static _Atomic uint64_t state;
static _Atomic pid_t drawing;

/* splitmix64, which threads may share; a forked process goes on elsewhere. */
static uint64_t draw(void) {
    pid_t own = getpid();
    if (atomic_exchange(&drawing, own) != own)
        atomic_fetch_add(&state, (uint64_t)own * 0xD1342543DE82EF95u + (uint64_t)time(NULL));
    uint64_t drawn = atomic_fetch_add(&state, STEP);
    drawn = (drawn ^ (drawn >> 30)) * 0xBF58476D1CE4E5B9u;
    drawn = (drawn ^ (drawn >> 27)) * 0x94D049BB133111EBu;
    return (drawn ^ (drawn >> 31)) >> 16;
}

static void wait_perhaps(unsigned often) {
    if (draw() % 1000 < often) {
        int kept = errno;
        struct timespec waiting = {0, (long)(draw() % LONGEST)};
        nanosleep(&waiting, NULL);
        errno = kept;
    }
}

static int perhaps_one(int most) {
    return draw() % 1000 < ALONE ? 1 : most;
}

static __typeof__(&epoll_wait) real_epoll_wait;
static __typeof__(&epoll_pwait) real_epoll_pwait;
static __typeof__(&send) real_send;
static __typeof__(&recv) real_recv;
static __typeof__(&clock_gettime) real_clock_gettime;
static bool python; /* a JVM asks for the time too often */

__attribute__((constructor)) static void find(void) {
    real_epoll_wait = (__typeof__(real_epoll_wait))dlsym(RTLD_NEXT, "epoll_wait");
    real_epoll_pwait = (__typeof__(real_epoll_pwait))dlsym(RTLD_NEXT, "epoll_pwait");
    real_send = (__typeof__(real_send))dlsym(RTLD_NEXT, "send");
    real_recv = (__typeof__(real_recv))dlsym(RTLD_NEXT, "recv");
    real_clock_gettime = (__typeof__(real_clock_gettime))dlsym(RTLD_NEXT, "clock_gettime");
    python = strstr(program_invocation_short_name, "python") != NULL;
}

int epoll_wait(int file, struct epoll_event *events, int most, int timeout) {
    int count = real_epoll_wait(file, events, perhaps_one(most), timeout);
    if (count > 0)
        wait_perhaps(WAITS);
    return count;
}

int epoll_pwait(int file, struct epoll_event *events, int most, int timeout, const sigset_t *mask) {
    int count = real_epoll_pwait(file, events, perhaps_one(most), timeout, mask);
    if (count > 0)
        wait_perhaps(WAITS);
    return count;
}

ssize_t send(int socket, const void *data, size_t size, int flags) {
    wait_perhaps(WAITS);
    return real_send(socket, data, size, flags);
}

ssize_t recv(int socket, void *data, size_t size, int flags) {
    wait_perhaps(WAITS);
    return real_recv(socket, data, size, flags);
}

/* What has a bound of time is over sooner: turns of a loop, say. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock_gettime) /* asked by another library, before it was found */
        find();
    if (python)
        wait_perhaps(CLOCKS);
    return real_clock_gettime(clock, now);
}
