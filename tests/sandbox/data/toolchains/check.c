/* What C programs use of a kernel, with whichever C library they were built: each line told is a
 * thing that works here. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(holds)                                                                              \
    do {                                                                                          \
        if (!(holds)) {                                                                           \
            perror("line " #holds);                                                               \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

extern char **environ;
static sem_t started;

static void *thread(void *argument) {
    sem_post(&started);
    return argument;
}

static void threads(void) {
    pthread_t all[16];
    CHECK(sem_init(&started, 0, 0) == 0);
    for (int i = 0; i < 16; i++) {
        CHECK(pthread_create(&all[i], NULL, thread, all) == 0);
    }
    for (int i = 0; i < 16; i++) {
        void *result;
        CHECK(sem_wait(&started) == 0 && pthread_join(all[i], &result) == 0 && result == all);
    }
}

static void processes(void) {
    char *arguments[] = {"/proc/self/exe", "child", NULL};
    pid_t child;
    int status;
    CHECK(posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK((child = fork()) >= 0);
    if (child == 0) {
        _exit(42);
    }
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 42);
}

static void sockets(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    CHECK(setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(server, (struct sockaddr *)&address, length) == 0 && listen(server, 1) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&address, &length) == 0);
    int client = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    CHECK(connect(client, (struct sockaddr *)&address, length) == 0);
    int accepted = accept(server, NULL, NULL);
    CHECK(write(accepted, "x", 1) == 1);
    struct pollfd waiting = {.fd = client, .events = POLLIN};
    CHECK(poll(&waiting, 1, 5000) == 1);
    struct ifaddrs *interfaces;
    CHECK(getifaddrs(&interfaces) == 0 && interfaces != NULL);
    struct addrinfo *found;
    CHECK(getaddrinfo("127.0.0.1", "80", NULL, &found) == 0);
}

static void files(void) {
    char name[] = "checkXXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0 && fsync(file) == 0);
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED);
    CHECK(mkfifo("fifo", 0600) == 0 && unlink("fifo") == 0 && unlink(name) == 0);
    int made = shm_open("/check", O_CREAT | O_RDWR, 0600);
    CHECK(made >= 0 && shm_unlink("/check") == 0);
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) {
        return 0;
    }
    threads();
    puts("c threads");
    processes();
    puts("c processes");
    sockets();
    puts("c sockets");
    files();
    puts("c files");
    return 0;
}
