/* Bare relay: the least that a program between a publisher and a consumer can do, for the load generator of AMQP 0-9-1.
 *
 * It answers what opens a connection and declares a queue with fixed replies, and then only polls, reads and writes: the
 * content of a publish goes as it came to the consumer of the queue that the routing key names, behind a method of its
 * own. It keeps nothing, checks nothing, and routes by the default exchange alone; what nobody consumes is dropped. With
 * confirms, each read is confirmed by one method. The generator bounds what is in flight, and so the buffers. One thread.
 * relay: prints the port of 127.0.0.1 that it listens at. Any error prints one sentence and exits with 1. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { METHOD = 1, HEADER = 2, BODY = 3, END = 0xCE, FRAME_MAX = 131072, READ_SIZE = 1 << 18, NAME = 256, EVENTS = 64 };
#define ID(class_id, method_id) ((uint32_t)(class_id) << 16 | (method_id))

struct buffer { uint8_t *data; size_t start, end, capacity; };

struct connection {
    int fd;
    struct buffer in, out;
    bool greeted, confirms, waits, closes;   /* waits: for room in the socket */
    char queue[NAME], tag[NAME];             /* of its consumer */
    uint64_t delivered, published, confirmed, body_left;
    struct connection *target;               /* of the content that is arriving */
    struct connection *next;
};

static struct connection *all;
static int poller;

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("relay: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return ntohl(v); }

static uint8_t *reserve(struct buffer *b, size_t more)
{
    if (b->start == b->end)
        b->start = b->end = 0;
    if (b->end + more > b->capacity) {
        b->capacity = (b->end + more) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            fail("out of memory");
    }
    return b->data + b->end;
}

static void put(struct buffer *b, const void *from, size_t size) { memcpy(reserve(b, size), from, size); b->end += size; }
static void put8(struct buffer *b, unsigned v) { uint8_t octet = (uint8_t)v; put(b, &octet, 1); }
static void put16(struct buffer *b, unsigned v) { uint16_t n = htons((uint16_t)v); put(b, &n, 2); }
static void put32(struct buffer *b, uint32_t v) { v = htonl(v); put(b, &v, 4); }
static void put64(struct buffer *b, uint64_t v) { put32(b, (uint32_t)(v >> 32)); put32(b, (uint32_t)v); }
static void put_short(struct buffer *b, const char *s) { put8(b, (unsigned)strlen(s)); put(b, s, strlen(s)); }

/* Begins a method frame, whose size `end_method` fills in. */
static size_t begin_method(struct connection *c, unsigned channel, uint32_t method)
{
    put8(&c->out, METHOD);
    put16(&c->out, channel);
    put32(&c->out, 0);
    size_t begin = c->out.end;
    put32(&c->out, method);
    return begin;
}

static void end_method(struct connection *c, size_t begin)
{
    uint32_t size = htonl((uint32_t)(c->out.end - begin));
    memcpy(c->out.data + begin - 4, &size, 4);
    put8(&c->out, END);
}

static void say(struct connection *c, unsigned channel, uint32_t method) { end_method(c, begin_method(c, channel, method)); }

static void take_short(const uint8_t **p, char *name)
{
    size_t size = *(*p)++;
    memcpy(name, *p, size);
    name[size] = 0;
    *p += size;
}

static void watch(struct connection *c, bool waits)
{
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = c};
    if (waits != c->waits && epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event))
        fail("epoll: %s", strerror(errno));
    c->waits = waits;
}

static void flush(struct connection *c)
{
    struct buffer *b = &c->out;
    while (b->start < b->end) {
        ssize_t n = send(c->fd, b->data + b->start, b->end - b->start, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(c, true);
            return;
        }
        if (n < 0 && errno != EINTR) {
            b->start = b->end;             /* its end is read soon */
            return;
        }
        if (n > 0)
            b->start += (size_t)n;
    }
    if (c->waits)
        watch(c, false);
}

static struct connection *consumer_of(const char *queue)
{
    for (struct connection *c = all; c; c = c->next)
        if (c->tag[0] && !strcmp(c->queue, queue))
            return c;
    return NULL;
}

static void deliver(struct connection *to, const char *key)
{
    size_t frame = begin_method(to, 1, ID(60, 60));
    put_short(&to->out, to->tag);
    put64(&to->out, ++to->delivered);
    put8(&to->out, 0);
    put_short(&to->out, "");
    put_short(&to->out, key);
    end_method(to, frame);
}

static void take_publish(struct connection *c, const uint8_t *p)
{
    char exchange[NAME], key[NAME];
    p += 2;
    take_short(&p, exchange);
    take_short(&p, key);
    if (exchange[0])
        fail("exchange '%s': it knows the default exchange alone", exchange);
    if (!c->target || strcmp(c->target->queue, key)) {
        if (c->target)
            flush(c->target);
        c->target = consumer_of(key);
    }
    if (c->target)
        deliver(c->target, key);
    c->published++;
}

static void take_consume(struct connection *c, const uint8_t *p)
{
    p += 2;
    take_short(&p, c->queue);
    take_short(&p, c->tag);
    if (!c->tag[0])
        strcpy(c->tag, "relay");
    size_t frame = begin_method(c, 1, ID(60, 21));
    put_short(&c->out, c->tag);
    end_method(c, frame);
}

static void take_declare(struct connection *c, const uint8_t *p)
{
    char name[NAME];
    p += 2;
    take_short(&p, name);
    size_t frame = begin_method(c, 1, ID(50, 11));
    put_short(&c->out, name);
    put64(&c->out, 0);                     /* messages and consumers */
    end_method(c, frame);
}

static void put_tune(struct connection *c)
{
    size_t frame = begin_method(c, 0, ID(10, 30));
    put16(&c->out, 2047);
    put32(&c->out, FRAME_MAX);
    put16(&c->out, 0);
    end_method(c, frame);
}

static void put_octet(struct connection *c, unsigned channel, uint32_t method, size_t zeros)
{
    size_t frame = begin_method(c, channel, method);
    while (zeros--)
        put8(&c->out, 0);
    end_method(c, frame);
}

static void take_method(struct connection *c, unsigned channel, const uint8_t *payload)
{
    uint32_t method = get32(payload);
    const uint8_t *args = payload + 4;
    switch (method) {
    case ID(60, 40): take_publish(c, args); break;
    case ID(60, 80): break;                                            /* basic.ack */
    case ID(10, 11): put_tune(c); break;                               /* start-ok */
    case ID(10, 31): break;                                            /* tune-ok */
    case ID(10, 40): put_octet(c, 0, ID(10, 41), 1); break;            /* open */
    case ID(10, 50): say(c, 0, ID(10, 51)); c->closes = true; break;   /* close */
    case ID(10, 51): c->closes = true; break;
    case ID(20, 10): put_octet(c, channel, ID(20, 11), 4); break;      /* channel.open */
    case ID(50, 10): take_declare(c, args); break;
    case ID(50, 40): put_octet(c, channel, ID(50, 41), 4); break;      /* queue.delete */
    case ID(60, 10): say(c, channel, ID(60, 11)); break;               /* basic.qos */
    case ID(60, 20): take_consume(c, args); break;
    case ID(85, 10): c->confirms = true; say(c, channel, ID(85, 11)); break;
    default: fail("a client sent the method %u.%u, which it does not know", method >> 16, method & 65535);
    }
}

/* The size of the whole frame at `p`, or 0 while part of it is missing. */
static size_t whole_frame(const uint8_t *p, size_t available)
{
    size_t size = available < 8 ? 0 : (size_t)get32(p + 3) + 8;
    if (size > FRAME_MAX || (size && size <= available && p[size - 1] != END))
        fail("a client sent what is no frame");
    return size <= available ? size : 0;
}

static void take_frames(struct connection *c)
{
    struct buffer *b = &c->in;
    if (!c->greeted && b->end - b->start >= 8) {
        static const uint8_t start[] = "\0\11\0\0\0\0\0\0\0\5PLAIN\0\0\0\5en_US";   /* no properties */
        size_t frame = begin_method(c, 0, ID(10, 10));
        put(&c->out, start, sizeof start - 1);
        end_method(c, frame);
        b->start += 8;
        c->greeted = true;
    }
    for (size_t size; c->greeted && (size = whole_frame(b->data + b->start, b->end - b->start)); b->start += size) {
        const uint8_t *p = b->data + b->start;
        if (p[0] == METHOD)
            take_method(c, (unsigned)p[1] << 8 | p[2], p + 7);
        else if ((p[0] == HEADER || p[0] == BODY) && c->target)
            put(&c->target->out, p, size);
    }
}

static void confirm(struct connection *c)
{
    if (!c->confirms || c->confirmed == c->published)
        return;
    size_t frame = begin_method(c, 1, ID(60, 80));
    put64(&c->out, c->confirmed = c->published);
    put8(&c->out, 1);                      /* multiple */
    end_method(c, frame);
}

static void leave(struct connection *c)
{
    struct connection **at = &all;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    for (struct connection *other = all; other; other = other->next)
        if (other->target == c)
            other->target = NULL;
    close(c->fd);
    free(c->in.data);
    free(c->out.data);
    free(c);
}

static void serve(struct connection *c)
{
    struct buffer *b = &c->in;
    reserve(b, READ_SIZE);
    if (b->start) {
        memmove(b->data, b->data + b->start, b->end - b->start);
        b->end -= b->start;
        b->start = 0;
    }
    ssize_t n = recv(c->fd, b->data + b->end, READ_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        leave(c);
        return;
    }
    b->end += (size_t)n;
    take_frames(c);
    confirm(c);
    if (c->target)
        flush(c->target);
    flush(c);
    if (c->closes && c->out.start == c->out.end)
        leave(c);
}

static void take(int listening)
{
    int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK), one = 1;
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        fail("out of memory");
    c->fd = fd;
    c->next = all;
    all = c;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
        fail("epoll: %s", strerror(errno));
}

int main(void)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    signal(SIGPIPE, SIG_IGN);
    if (bind(listening, (void *)&own, size) || listen(listening, 100) || getsockname(listening, (void *)&own, &size))
        fail("listen: %s", strerror(errno));
    poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    if (epoll_ctl(poller, EPOLL_CTL_ADD, listening, &event))
        fail("epoll: %s", strerror(errno));
    printf("%d\n", ntohs(own.sin_port));
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                take(listening);
                continue;
            }
            bool lives = false;            /* an earlier event of this wait may have been its end */
            for (struct connection *each = all; each && !lives; each = each->next)
                lives = each == c;
            if (lives && events[i].events & EPOLLOUT)
                flush(c);
            if (lives && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                serve(c);
        }
    }
}
