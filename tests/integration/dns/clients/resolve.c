/* What getaddrinfo of this C library says of each name. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
        struct addrinfo *found = NULL;
        int error = getaddrinfo(argv[i], "443", &hints, &found);
        printf("%s", argv[i]);
        if (error != 0) {
            printf(" %s", error == EAI_NONAME ? "EAI_NONAME" : gai_strerror(error));
        }
        for (struct addrinfo *one = found; one != NULL; one = one->ai_next) {
            char text[INET6_ADDRSTRLEN] = "not IPv4";
            if (one->ai_family == AF_INET) {
                struct sockaddr_in *address = (struct sockaddr_in *)one->ai_addr;
                inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
            }
            printf(" %s", text);
        }
        printf("\n");
        if (found != NULL) {
            freeaddrinfo(found);
        }
    }
    return 0;
}
