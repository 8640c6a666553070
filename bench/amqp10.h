/* AMQP 1.0 as far as a load generator needs it: values, frames, and the blocking conversation that opens a connection
 * with one session.  Section numbers are those of the OASIS specification of 29 October 2012. */
#ifndef BENCH_AMQP10_H
#define BENCH_AMQP10_H

#include "amqp.h"

enum {
    OPEN = 0x10, BEGIN = 0x11, ATTACH = 0x12, FLOW = 0x13, TRANSFER = 0x14, DISPOSITION = 0x15, DETACH = 0x16,
    END = 0x17, CLOSE = 0x18, ERROR = 0x1D, ACCEPTED = 0x24, REJECTED = 0x25, RELEASED = 0x26, MODIFIED = 0x27,
    SOURCE = 0x28, TARGET = 0x29, SASL_MECHANISMS = 0x40, SASL_INIT = 0x41, SASL_OUTCOME = 0x44, DATA = 0x75,
};
enum { HEADER_OCTETS = 8, LARGEST_WINDOW = 0x7FFFFFFF };

/* ---- writing ----------------------------------------------------------------------------------------------- */

static void put_null(struct buffer *b) { put8(b, 0x40); }
static void put_bool(struct buffer *b, bool v) { put8(b, v ? 0x41 : 0x42); }
static void put_uint(struct buffer *b, uint32_t v) { put8(b, 0x70); put32(b, v); }
static void put_ubyte(struct buffer *b, uint8_t v) { put8(b, 0x50); put8(b, v); }

static void put_octets(struct buffer *b, uint8_t code, const char *from, size_t size)
{
    put8(b, code);
    put32(b, (uint32_t)size);
    put(b, from, size);
}

static void put_string(struct buffer *b, const char *s) { put_octets(b, 0xB1, s, strlen(s)); }
static void put_symbol(struct buffer *b, const char *s) { put_octets(b, 0xB3, s, strlen(s)); }

/* A composite: its descriptor, and a list of four-octet size whose size and count `end_composite` fills in. */
static size_t begin_composite(struct buffer *b, uint8_t code)
{
    put(b, (uint8_t[]){0x00, 0x53, code, 0xD0}, 4);
    put32(b, 0);
    put32(b, 0);
    return b->end;
}

static void end_composite(struct buffer *b, size_t begin, uint32_t count)
{
    set32(b->data + begin - 8, (uint32_t)(b->end - begin + 4));
    set32(b->data + begin - 4, count);
}

static size_t begin_frame(struct buffer *b, uint8_t type)
{
    put32(b, 0);
    put(b, (uint8_t[]){2, type, 0, 0}, 4);
    return b->end - 8;
}

/* The frame's position counts from the start of the buffer's data, which `reserve` may move but not shift. */
static void end_frame(struct buffer *b, size_t begin) { set32(b->data + begin, (uint32_t)(b->end - begin)); }

/* ---- reading ----------------------------------------------------------------------------------------------- */

struct value { uint8_t code; const uint8_t *at; size_t size; };
struct fields { const uint8_t *at, *end; uint32_t left; };

/* The value at `p` without what describes it; returns where it ends. */
static const uint8_t *read_value(const uint8_t *p, const uint8_t *end, struct value *v)
{
    if (p < end && *p == 0) {          /* described: the descriptor is read past */
        struct value descriptor;
        p = read_value(p + 1, end, &descriptor);
    }
    if (p >= end)
        die("a value of the broker is cut short");
    v->code = *p++;
    size_t prefix = 0;
    switch (v->code >> 4) {
    case 0x4: v->size = 0; break;
    case 0x5: v->size = 1; break;
    case 0x6: v->size = 2; break;
    case 0x7: v->size = 4; break;
    case 0x8: v->size = 8; break;
    case 0x9: v->size = 16; break;
    case 0xA: case 0xC: case 0xE: prefix = 1; v->size = p < end ? *p : 0; break;
    case 0xB: case 0xD: case 0xF: prefix = 4; v->size = end - p >= 4 ? get32(p) : 0; break;
    default: die("the broker sent a value of the unknown format %#x", v->code);
    }
    v->at = p + prefix;
    if (v->at > end || v->size > (size_t)(end - v->at))
        die("a value of the broker is cut short");
    return v->at + v->size;
}

/* The descriptor of the described value at `p`, as a number; those of the specification have no others here. */
static uint64_t descriptor_of(const uint8_t *p, const uint8_t *end)
{
    struct value v;
    if (p >= end || *p != 0)
        die("the broker sent something without a descriptor");
    read_value(p + 1, end, &v);
    return v.code == 0x53 ? *v.at : v.code == 0x80 ? get64(v.at) : 0;
}

/* The fields of the composite at `p`; *after is where it ends. */
static struct fields fields_of(const uint8_t *p, const uint8_t *end, const uint8_t **after)
{
    struct value v;
    *after = read_value(p, end, &v);
    if (v.code == 0xC0)
        return (struct fields){v.at + 1, *after, *v.at};
    if (v.code == 0xD0)
        return (struct fields){v.at + 4, *after, get32(v.at)};
    return (struct fields){*after, *after, 0};
}

static bool next_field(struct fields *f, struct value *v)
{
    if (!f->left)
        return false;
    f->left--;
    f->at = read_value(f->at, f->end, v);
    return v->code != 0x40;
}

static uint64_t next_number(struct fields *f, uint64_t absent)
{
    struct value v;
    if (!next_field(f, &v))
        return absent;
    switch (v.code) {
    case 0x43: case 0x44: case 0x42: return 0;
    case 0x41: return 1;
    case 0x50: case 0x52: case 0x53: case 0x56: return *v.at;
    case 0x60: return get16(v.at);
    case 0x70: return get32(v.at);
    case 0x80: return get64(v.at);
    default: die("the broker sent a field of the format %#x where a number was expected", v.code);
    }
}

/* Dies with the condition and the description of the error at `p`, if there is one. */
static void die_of(const char *what, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *after;
    struct value condition = {0}, description = {0};
    if (p && *p == 0) {
        struct fields f = fields_of(p, end, &after);
        next_field(&f, &condition);
        next_field(&f, &description);
    }
    die("the broker sent %s: %.*s: %.*s", what, (int)condition.size, (const char *)condition.at, (int)description.size,
        (const char *)description.at);
}

/* The size of the whole frame that begins at `p`, or 0 while part of it is missing (section 2.3). */
static inline size_t whole_frame10(const uint8_t *p, size_t available, uint32_t largest)
{
    if (available < 8)
        return 0;
    size_t size = get32(p);
    if (!memcmp(p, "AMQP", 4))
        die("the broker answered with the header AMQP %d %d.%d.%d", p[4], p[5], p[6], p[7]);
    if (size < 8 || size > largest || p[4] < 2)
        die("the broker sent a frame of %zu octets with a data offset of %d", size, p[4]);
    return available < size ? 0 : size;
}

/* ---- the conversation that opens a connection -------------------------------------------------------------- */

/* What a frame that was not waited for means is the load generator's business (loadgen10.c). */
static void handle_performative(struct connection *c, const uint8_t *p, const uint8_t *end);

static void await_header(struct connection *c, const char *header)
{
    put(&c->out, header, HEADER_OCTETS);
    flush(c);
    while (c->in.end - c->in.start < HEADER_OCTETS)
        receive(c);
    const uint8_t *p = c->in.data + c->in.start;
    if (memcmp(p, header, HEADER_OCTETS))
        die("the broker answered with another header: %.4s %d %d.%d.%d", (const char *)p, p[4], p[5], p[6], p[7]);
    c->in.start += HEADER_OCTETS;
}

/* Sends what is waiting and blocks until a performative arrives; *end is the end of its frame. */
static const uint8_t *await10(struct connection *c, uint8_t code, const uint8_t **end)
{
    flush(c);
    for (;;) {
        const uint8_t *p = c->in.data + c->in.start;
        size_t frame = whole_frame10(p, c->in.end - c->in.start, FRAME_MAX);
        if (!frame) {
            receive(c);
            continue;
        }
        c->in.start += frame;
        const uint8_t *body = p + 4 * p[4];
        *end = p + frame;
        if (body == *end)
            continue;
        if (descriptor_of(body, *end) == code)
            return body;
        handle_performative(c, body, *end);
    }
}

static void log_in(struct connection *c, const char *mechanism, const char *user, const char *password)
{
    struct buffer *b = &c->out;
    const uint8_t *end, *after, *p;
    await_header(c, "AMQP\3\1\0\0");
    await10(c, SASL_MECHANISMS, &end);
    size_t frame = begin_frame(b, 1), init = begin_composite(b, SASL_INIT);
    put_symbol(b, mechanism);
    if (!strcmp(mechanism, "PLAIN")) {
        char response[512];
        int size = snprintf(response, sizeof response, "%c%s%c%s", 0, user, 0, password);
        put_octets(b, 0xB0, response, (size_t)size);
        end_composite(b, init, 2);
    } else {
        end_composite(b, init, 1);
    }
    end_frame(b, frame);
    p = await10(c, SASL_OUTCOME, &end);
    struct fields f = fields_of(p, end, &after);
    uint64_t code = next_number(&f, 0);
    if (code)
        die("the login by %s as %s failed with the SASL code %llu", mechanism, user, (unsigned long long)code);
}

/* Sections 2.2, 2.7.1 and 2.7.2: SASL, open, and a session on channel 0 whose windows bound nothing on our side.
 * *window is how many transfer frames the broker takes. */
static void open_connection10(struct connection *c, const char *mechanism, const char *user, const char *password,
                              const char *host, uint32_t *window)
{
    struct buffer *b = &c->out;
    const uint8_t *end, *after, *p;
    log_in(c, mechanism, user, password);
    await_header(c, "AMQP\0\1\0\0");
    char container[64];
    snprintf(container, sizeof container, "loadgen-%d-%d", (int)getpid(), c->fd);
    size_t frame = begin_frame(b, 0), open = begin_composite(b, OPEN);
    put_string(b, container);
    put_string(b, host);
    put_uint(b, FRAME_MAX);
    end_composite(b, open, 3);
    end_frame(b, frame);
    frame = begin_frame(b, 0), open = begin_composite(b, BEGIN);
    put_null(b);
    put_uint(b, 0);
    put_uint(b, LARGEST_WINDOW);
    put_uint(b, LARGEST_WINDOW);
    end_composite(b, open, 4);
    end_frame(b, frame);
    p = await10(c, OPEN, &end);
    struct fields f = fields_of(p, end, &after);
    struct value skipped;
    next_field(&f, &skipped);
    next_field(&f, &skipped);
    uint64_t largest = next_number(&f, FRAME_MAX);
    c->frame_max = largest < FRAME_MAX ? (uint32_t)largest : FRAME_MAX;
    p = await10(c, BEGIN, &end);
    f = fields_of(p, end, &after);
    next_field(&f, &skipped);
    next_field(&f, &skipped);
    *window = (uint32_t)next_number(&f, 0);
}

static void attach(struct connection *c, uint32_t handle, const char *name, const char *address, bool receiver,
                   bool settled)
{
    struct buffer *b = &c->out;
    const uint8_t *end;
    size_t frame = begin_frame(b, 0), list = begin_composite(b, ATTACH), terminus;
    put_string(b, name);
    put_uint(b, handle);
    put_bool(b, receiver);
    put_ubyte(b, settled ? 1 : 0);
    put_ubyte(b, 0);
    for (int side = 0; side < 2; side++) {
        terminus = begin_composite(b, side ? TARGET : SOURCE);
        if (side == receiver)
            put_null(b);
        else
            put_string(b, address);
        end_composite(b, terminus, 1);
    }
    put_null(b);
    put_null(b);
    if (!receiver)
        put_uint(b, 0);
    end_composite(b, list, receiver ? 9 : 10);
    end_frame(b, frame);
    await10(c, ATTACH, &end);
}

static void close_connection10(struct connection *c)
{
    const uint8_t *end;
    size_t frame = begin_frame(&c->out, 0), list = begin_composite(&c->out, CLOSE);
    end_composite(&c->out, list, 0);
    end_frame(&c->out, frame);
    await10(c, CLOSE, &end);
    close(c->fd);
}

#endif
