/*
 * Runs and times rpcgen's decoders and encoders for messages.x.
 *
 * The program reads commands and prints a line for each. `load NAME LENGTH` reads a message of type
 * NAME that has LENGTH bytes. The other commands repeat an operation COUNT times and print the elapsed
 * nanoseconds:
 *
 *   decode NAME COUNT         decodes the message and frees the result
 *   encode NAME COUNT         encodes the message into reused memory
 *   encode-fresh NAME COUNT   allocates memory of the message's length, encodes into it, and frees it
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "messages.h"

struct message {
    const char *name;
    xdrproc_t proc;
    size_t size;
    char *bytes;
    u_int len;
    void *value;
};

#define MESSAGE(type) { #type, (xdrproc_t)xdr_##type, sizeof(type), NULL, 0, NULL }

static struct message messages[] = {
    MESSAGE(GETATTR3res),
    MESSAGE(LOOKUP3res),
    MESSAGE(READ3res),
    MESSAGE(WRITE3args),
    MESSAGE(READDIRPLUS3res),
};

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static struct message *find(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof messages / sizeof *messages; i++)
        if (strcmp(messages[i].name, name) == 0)
            return &messages[i];
    fail("no such message");
    return NULL;
}

static void decode(struct message *message, void *value)
{
    XDR xdrs;
    memset(value, 0, message->size);
    xdrmem_create(&xdrs, message->bytes, message->len, XDR_DECODE);
    if (!message->proc(&xdrs, value) || xdr_getpos(&xdrs) != message->len)
        fail("decoding failed");
    xdr_destroy(&xdrs);
}

static void encode(struct message *message, char *out)
{
    XDR xdrs;
    xdrmem_create(&xdrs, out, message->len, XDR_ENCODE);
    if (!message->proc(&xdrs, message->value) || xdr_getpos(&xdrs) != message->len)
        fail("encoding failed");
    xdr_destroy(&xdrs);
}

static void load(struct message *message, u_int len)
{
    char *out = calloc(len, 1);
    free(message->bytes);
    if (message->value) {
        xdr_free(message->proc, message->value);
        free(message->value);
    }
    message->bytes = malloc(len);
    message->value = malloc(message->size);
    message->len = len;
    if (!out || !message->bytes || !message->value || fread(message->bytes, 1, len, stdin) != len)
        fail("out of memory, or the message is truncated");
    decode(message, message->value);
    encode(message, out);
    if (memcmp(out, message->bytes, len) != 0)
        fail("the encoded message differs from the original");
    free(out);
}

static void run(const char *what, struct message *message, unsigned long count)
{
    struct timespec begin, end;
    void *value = malloc(message->size);
    char *out = malloc(message->len);
    if (!message->bytes || !value || !out)
        fail("out of memory, or no message is loaded");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (strcmp(what, "decode") == 0)
        for (; count; count--) {
            decode(message, value);
            xdr_free(message->proc, value);
        }
    else if (strcmp(what, "encode") == 0)
        for (; count; count--)
            encode(message, out);
    else
        for (; count; count--) {
            char *fresh = malloc(message->len);
            if (!fresh)
                fail("out of memory");
            encode(message, fresh);
            free(fresh);
        }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + (end.tv_nsec - begin.tv_nsec));
    free(value);
    free(out);
}

int main(void)
{
    char what[16], name[32];
    unsigned long number;
    while (scanf("%15s %31s %lu", what, name, &number) == 3) {
        if (getchar() != '\n')
            fail("a command does not end with a newline");
        if (strcmp(what, "load") == 0) {
            load(find(name), number);
            puts("0");
        } else {
            run(what, find(name), number);
        }
        fflush(stdout);
    }
    return 0;
}
