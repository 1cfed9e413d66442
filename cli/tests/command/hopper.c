/* A process that forks a child each half a millisecond and ends, the child too, each in a session of
   its own, for 8 s. Each tenth writes a line to the file that is named. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    if (count != 2) return 1;
    time_t end = time(NULL) + 8;
    for (unsigned hop = 0; time(NULL) < end; hop++) {
        if (hop % 10 == 0) {
            int out = open(words[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
            if (out < 0 || write(out, "beat\n", 5) != 5) return 1;
            close(out);
        }
        setsid();
        usleep(500);
        if (fork()) _exit(0);
    }
    return 0;
}
