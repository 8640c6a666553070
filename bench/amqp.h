/* AMQP 0-9-1 as far as a load generator needs it: buffers, big-endian integers, frames, one connection's sockets
 * and the blocking conversation that opens it.  Section numbers are those of the AMQP 0-9-1 specification. */
#ifndef BENCH_AMQP_H
#define BENCH_AMQP_H

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_HEARTBEAT = 8, FRAME_END = 0xCE };
enum { FRAME_MAX = 131072, FRAME_OVERHEAD = 8, INPUT_CAPACITY = 1 << 20, READ_SIZE = 1 << 18 };

#define METHOD(class_id, method_id) ((uint32_t)(class_id) << 16 | (method_id))
enum {
    CONNECTION_START = METHOD(10, 10), CONNECTION_START_OK = METHOD(10, 11), CONNECTION_TUNE = METHOD(10, 30),
    CONNECTION_TUNE_OK = METHOD(10, 31), CONNECTION_OPEN = METHOD(10, 40), CONNECTION_OPEN_OK = METHOD(10, 41),
    CONNECTION_CLOSE = METHOD(10, 50), CONNECTION_CLOSE_OK = METHOD(10, 51), CONNECTION_BLOCKED = METHOD(10, 60),
    CONNECTION_UNBLOCKED = METHOD(10, 61), CHANNEL_OPEN = METHOD(20, 10), CHANNEL_OPEN_OK = METHOD(20, 11),
    CHANNEL_FLOW = METHOD(20, 20), CHANNEL_FLOW_OK = METHOD(20, 21), CHANNEL_CLOSE = METHOD(20, 40),
    EXCHANGE_DECLARE = METHOD(40, 10), EXCHANGE_DECLARE_OK = METHOD(40, 11), QUEUE_DECLARE = METHOD(50, 10),
    QUEUE_DECLARE_OK = METHOD(50, 11), QUEUE_BIND = METHOD(50, 20), QUEUE_BIND_OK = METHOD(50, 21),
    QUEUE_DELETE = METHOD(50, 40), QUEUE_DELETE_OK = METHOD(50, 41), BASIC_QOS = METHOD(60, 10), BASIC_QOS_OK = METHOD(60, 11),
    BASIC_CONSUME = METHOD(60, 20), BASIC_CONSUME_OK = METHOD(60, 21), BASIC_CANCEL = METHOD(60, 30),
    BASIC_PUBLISH = METHOD(60, 40), BASIC_RETURN = METHOD(60, 50), BASIC_DELIVER = METHOD(60, 60),
    BASIC_ACK = METHOD(60, 80), BASIC_NACK = METHOD(60, 120), CONFIRM_SELECT = METHOD(85, 10),
    CONFIRM_SELECT_OK = METHOD(85, 11),
};

/* Everything that goes wrong ends the program with one sentence and exit code 1: a load figure from a run
 * with an error in it would be worth nothing. */
static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static inline uint16_t get16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline void set16(uint8_t *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
static inline void set32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
static inline void set64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }

/* A buffer that grows; [start, end) is what is still to be used. */
struct buffer { uint8_t *data; size_t start, end, capacity; };

static uint8_t *reserve(struct buffer *b, size_t more)
{
    if (b->start == b->end)
        b->start = b->end = 0;
    if (b->end + more > b->capacity) {
        b->capacity = (b->end + more) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            die("out of memory");
    }
    return b->data + b->end;
}

static void put(struct buffer *b, const void *from, size_t size) { memcpy(reserve(b, size), from, size); b->end += size; }
static void put8(struct buffer *b, uint8_t v) { put(b, &v, 1); }
static void put16(struct buffer *b, uint16_t v) { set16(reserve(b, 2), v); b->end += 2; }
static void put32(struct buffer *b, uint32_t v) { set32(reserve(b, 4), v); b->end += 4; }
static void put64(struct buffer *b, uint64_t v) { set64(reserve(b, 8), v); b->end += 8; }
static void put_short(struct buffer *b, const char *s) { put8(b, (uint8_t)strlen(s)); put(b, s, strlen(s)); }

/* Frames and tables carry their own size in front: begin_* leaves room for it, end_* fills it in. */
static size_t begin_table(struct buffer *b) { put32(b, 0); return b->end; }
static void end_table(struct buffer *b, size_t begin) { set32(b->data + begin - 4, (uint32_t)(b->end - begin)); }

static size_t begin_method(struct buffer *b, uint16_t channel, uint32_t method)
{
    put8(b, FRAME_METHOD);
    put16(b, channel);
    size_t begin = begin_table(b);
    put32(b, method);
    return begin;
}

static void end_method(struct buffer *b, size_t begin) { end_table(b, begin); put8(b, FRAME_END); }

struct connection {
    int fd;
    bool consumes;            /* else it publishes */
    struct pair *pair;
    struct buffer in, out;
    uint32_t frame_max;
    uint64_t body_left;       /* of the content being received */
    bool body_begins;
};

/* What an unexpected method means is the load generator's business (loadgen.c). */
static void handle_method(struct connection *c, uint32_t method, const uint8_t *args, uint32_t size);

static void connect_to(struct connection *c, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error)
        die("%s:%s: %s", host, port, gai_strerror(error));
    c->fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, found->ai_addr, found->ai_addrlen))
        die("cannot connect to %s:%s: %s", host, port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    freeaddrinfo(found);
    c->in.capacity = INPUT_CAPACITY;
    c->in.data = malloc(INPUT_CAPACITY);
    c->frame_max = FRAME_MAX;
}

/* Reads once; returns false when nothing is there yet (non-blocking sockets only). */
static bool receive(struct connection *c)
{
    struct buffer *b = &c->in;
    if (b->start == b->end) {
        b->start = b->end = 0;
    } else if (b->capacity - b->end < READ_SIZE) {
        memmove(b->data, b->data + b->start, b->end - b->start);
        b->end -= b->start;
        b->start = 0;
    }
    ssize_t n = recv(c->fd, b->data + b->end, READ_SIZE, 0);
    if (n == 0)
        die("the broker closed the %s connection", c->consumes ? "consumer's" : "publisher's");
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0)
        die("read: %s", strerror(errno));
    b->end += (size_t)n;
    return true;
}

/* Writes what the socket takes; what is left waits for the next call. */
static void flush(struct connection *c)
{
    struct buffer *b = &c->out;
    while (b->start < b->end) {
        ssize_t n = send(c->fd, b->data + b->start, b->end - b->start, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EINTR)
            die("write: %s", strerror(errno));
        if (n > 0)
            b->start += (size_t)n;
    }
}

/* The size of the whole frame that begins at `p`, or 0 while part of it is missing (section 4.2.3). */
static inline size_t whole_frame(const struct connection *c, const uint8_t *p, size_t available)
{
    if (available < FRAME_OVERHEAD)
        return 0;
    if (!memcmp(p, "AMQP", 4))
        die("the broker speaks another version of AMQP: %d-%d-%d", p[5], p[6], p[7]);
    size_t size = (size_t)get32(p + 3) + FRAME_OVERHEAD;
    if (size > c->frame_max)
        die("the broker sent a frame of %zu octets, more than the negotiated %u", size, c->frame_max);
    if (available < size)
        return 0;
    if (p[size - 1] != FRAME_END)
        die("a frame of the broker does not end in 0xCE");
    return size;
}

/* Sends what is waiting and blocks until `method` arrives; *args and *size are what it carries. */
static void await(struct connection *c, uint32_t method, const uint8_t **args, uint32_t *size)
{
    flush(c);
    for (;;) {
        const uint8_t *p = c->in.data + c->in.start;
        size_t frame = whole_frame(c, p, c->in.end - c->in.start);
        if (!frame) {
            receive(c);
            continue;
        }
        c->in.start += frame;
        if (p[0] != FRAME_METHOD)
            continue;
        *args = p + 11;
        *size = (uint32_t)frame - 12;
        if (get32(p + 7) == method)
            return;
        handle_method(c, get32(p + 7), *args, *size);
    }
}

static void put_start_ok(struct buffer *b, const char *user, const char *password)
{
    static const char *const capabilities[] = {"authentication_failure_close", "basic.nack", "connection.blocked",
                                               "consumer_cancel_notify", "publisher_confirms"};
    size_t frame = begin_method(b, 0, CONNECTION_START_OK), properties = begin_table(b);
    put_short(b, "capabilities");
    put8(b, 'F');
    size_t table = begin_table(b);
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
        put_short(b, capabilities[i]);
        put(b, "t\1", 2);
    }
    end_table(b, table);
    end_table(b, properties);
    put_short(b, "PLAIN");
    put32(b, (uint32_t)(strlen(user) + strlen(password) + 2));
    put8(b, 0);
    put(b, user, strlen(user));
    put8(b, 0);
    put(b, password, strlen(password));
    put_short(b, "en_US");
    end_method(b, frame);
}

/* Section 2.2.4: protocol header, start, tune (heartbeat 0: none), open; then channel 1. */
static void open_connection(struct connection *c, const char *user, const char *password, const char *vhost)
{
    const uint8_t *args;
    uint32_t size;
    put(&c->out, "AMQP\0\0\11\1", 8);
    await(c, CONNECTION_START, &args, &size);
    put_start_ok(&c->out, user, password);
    await(c, CONNECTION_TUNE, &args, &size);
    uint16_t channel_max = get16(args);
    uint32_t frame_max = get32(args + 2);
    if (frame_max && frame_max < c->frame_max)
        c->frame_max = frame_max;
    size_t frame = begin_method(&c->out, 0, CONNECTION_TUNE_OK);
    put16(&c->out, channel_max);
    put32(&c->out, c->frame_max);
    put16(&c->out, 0);
    end_method(&c->out, frame);
    frame = begin_method(&c->out, 0, CONNECTION_OPEN);
    put_short(&c->out, vhost);
    put16(&c->out, 0);
    end_method(&c->out, frame);
    await(c, CONNECTION_OPEN_OK, &args, &size);
    frame = begin_method(&c->out, 1, CHANNEL_OPEN);
    put8(&c->out, 0);
    end_method(&c->out, frame);
    await(c, CHANNEL_OPEN_OK, &args, &size);
}

static void set_blocking(struct connection *c, bool blocking)
{
    int flags = fcntl(c->fd, F_GETFL);
    fcntl(c->fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static void close_connection(struct connection *c)
{
    const uint8_t *args;
    uint32_t size;
    size_t frame = begin_method(&c->out, 0, CONNECTION_CLOSE);
    put16(&c->out, 200);
    put_short(&c->out, "done");
    put32(&c->out, 0);
    end_method(&c->out, frame);
    await(c, CONNECTION_CLOSE_OK, &args, &size);
    close(c->fd);
}

#endif
