/* A process in a session of its own whose first thread has ended while another one runs: /proc shows
   it as a zombie. It writes a line to the file that is named, ten times a second, for 8 s. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *beats(void *file) {
    for (int beat = 0; beat < 80; beat++) {
        FILE *out = fopen(file, "a");
        if (out) {
            fputs("beat\n", out);
            fclose(out);
        }
        usleep(100000);
    }
    _exit(0);
}

int main(int count, char **words) {
    pthread_t thread;
    if (count != 2 || setsid() < 0) return 1;
    if (pthread_create(&thread, NULL, beats, words[1])) return 1;
    pthread_exit(NULL);
}
