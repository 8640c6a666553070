/* Relay that speaks TLS to a broker, for a load generator that does not: every connection to 127.0.0.1:LISTEN gets one
 * by TLS to 127.0.0.1:PORT.  One thread; octets pass in pieces of up to 256 KiB, so records are as large as they can be.
 * tls_relay PORT [NAME]: prints the port that it listens at.  NAME is the server name that it asks for.  Certificates
 * are not verified. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 256 * 1024, MOST = 256 };

struct way { unsigned char *octets; int start, end; };
static struct link { int near, far; SSL *tls; struct way out, in; } links[MOST];
static int count;
static const char *server_name;

static void fail(const char *what)
{
    fprintf(stderr, "tls_relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int tcp(int port, bool listens)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (listens ? bind(fd, (void *)&where, sizeof where) || listen(fd, 100) : connect(fd, (void *)&where, sizeof where))
        fail(listens ? "listen" : "connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void take(int listening, int port, SSL_CTX *context)
{
    int near = accept(listening, NULL, NULL), one = 1;
    if (near < 0 || count == MOST)
        fail("accept");
    struct link *l = &links[count++];
    *l = (struct link){near, tcp(port, false), SSL_new(context), {malloc(PIECE), 0, 0}, {malloc(PIECE), 0, 0}};
    SSL_set_fd(l->tls, l->far);
    if (server_name)
        SSL_set_tlsext_host_name(l->tls, server_name);
    if (SSL_connect(l->tls) != 1)
        fail("no handshake");
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(near, F_SETFL, O_NONBLOCK);
    fcntl(l->far, F_SETFL, O_NONBLOCK);
}

/* Moves what it can in both directions; false at the end of either side. */
static bool move(struct link *l)
{
    if (l->out.start == l->out.end) {
        ssize_t n = read(l->near, l->out.octets, PIECE);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        l->out.start = 0;
        l->out.end = n < 0 ? 0 : (int)n;
    }
    while (l->out.start < l->out.end) {
        int n = SSL_write(l->tls, l->out.octets + l->out.start, l->out.end - l->out.start);
        if (n <= 0) {
            int why = SSL_get_error(l->tls, n);
            if (why != SSL_ERROR_WANT_WRITE && why != SSL_ERROR_WANT_READ)
                return false;
            break;
        }
        l->out.start += n;
    }
    if (l->in.start == l->in.end) {
        l->in.start = l->in.end = 0;
        while (l->in.end < PIECE) {
            int n = SSL_read(l->tls, l->in.octets + l->in.end, PIECE - l->in.end);
            if (n <= 0) {
                if (SSL_get_error(l->tls, n) != SSL_ERROR_WANT_READ && l->in.end == 0)
                    return false;
                break;
            }
            l->in.end += n;
        }
    }
    while (l->in.start < l->in.end) {
        ssize_t n = write(l->near, l->in.octets + l->in.start, (size_t)(l->in.end - l->in.start));
        if (n < 0)
            return errno == EAGAIN;
        l->in.start += (int)n;
    }
    return true;
}

static void leave(int i)
{
    close(links[i].near);
    close(links[i].far);
    SSL_free(links[i].tls);
    free(links[i].out.octets);
    free(links[i].in.octets);
    links[i] = links[--count];
}

int main(int argc, char **words)
{
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    int port = argc > 1 ? atoi(words[1]) : 0, listening = tcp(0, true);
    server_name = argc > 2 ? words[2] : NULL;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
    signal(SIGPIPE, SIG_IGN);
    getsockname(listening, (void *)&own, &size);
    printf("%d\n", ntohs(own.sin_port));
    fflush(stdout);
    for (;;) {
        struct pollfd fds[1 + 2 * MOST];
        int before = count;
        fds[0] = (struct pollfd){.fd = listening, .events = POLLIN};
        for (int i = 0; i < count; i++) {
            struct link *l = &links[i];
            bool more = l->out.start < l->out.end, back = l->in.start < l->in.end;
            fds[1 + 2 * i] = (struct pollfd){.fd = l->near, .events = (short)((more ? 0 : POLLIN) | (back ? POLLOUT : 0))};
            fds[2 + 2 * i] = (struct pollfd){.fd = l->far, .events = (short)((back ? 0 : POLLIN) | (more ? POLLOUT : 0))};
        }
        if (poll(fds, (nfds_t)(1 + 2 * count), -1) < 0 && errno != EINTR)
            fail("poll");
        for (int i = before - 1; i >= 0; i--)
            if ((fds[1 + 2 * i].revents || fds[2 + 2 * i].revents) && !move(&links[i]))
                leave(i);
        if (fds[0].revents)
            take(listening, port, context);
    }
}
