/* Processes that are hard to find or to end:
 *
 *     escaping KIND FOLDER WHEN
 *
 * One of this kind appends the time to FOLDER/beat. What started it ends by itself, with status 3,
 * once FOLDER/WHEN is there. All end after 30 s in any case. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int beats;
static time_t end;

static struct timespec now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now;
}

static void beat(void) {
    char line[64];
    struct timespec at = now();
    if (at.tv_sec > end) _exit(0);
    int length = snprintf(line, sizeof line, "%ld.%09ld\n", (long)at.tv_sec, at.tv_nsec);
    if (write(beats, line, length) != length) _exit(1);
}

static void *beat_on(void *nothing) {
    for (;;) {
        beat();
        usleep(5000);
    }
    return nothing;
}

/* Each generation starts the next and ends. */
static void hop(useconds_t pause) {
    for (;;) {
        beat();
        if (pause != 0) usleep(pause);
        pid_t next = fork();
        if (next > 0) _exit(0);
        if (next == 0) setsid();
    }
}

/* Each in a session of its own, the child of the one before. */
static void nest(void) {
    for (int depth = 0; depth < 300; depth++) {
        if (fork() != 0)
            for (;;) pause();
        setsid();
    }
    beat_on(NULL);
}

int main(int count, char **words) {
    char path[4096];
    if (count != 4) return 64;
    signal(SIGTERM, SIG_IGN);
    end = now().tv_sec + 30;
    snprintf(path, sizeof path, "%s/beat", words[2]);
    beats = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fork() == 0) {
        setsid();
        if (strcmp(words[1], "hopper") == 0) hop(0);
        if (strcmp(words[1], "slow hopper") == 0) hop(1000);
        if (strcmp(words[1], "nested") == 0) nest();
        if (strcmp(words[1], "hidden") == 0) prctl(PR_SET_DUMPABLE, 0);
        if (strcmp(words[1], "threaded") == 0) {
            /* Its first thread ends, and the other goes on. */
            pthread_t other;
            pthread_create(&other, NULL, beat_on, NULL);
            pthread_exit(NULL);
        }
        beat_on(NULL);
    }
    snprintf(path, sizeof path, "%s/%s", words[2], words[3]);
    while (access(path, F_OK) != 0 && now().tv_sec <= end) usleep(5000);
    return 3;
}
