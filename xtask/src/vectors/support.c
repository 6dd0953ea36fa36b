/* Functions for basic types. The random numbers have fixed seeds, so that every run gives the same values. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
static unsigned turn;  /* the number of the value among the values of its type */
static int first;      /* nonzero before the first choice in the value */
static unsigned links; /* how many more list links the value may have */

static void begin(unsigned type, unsigned value)
{
    state = (type * 1000003u + value + 1) * UINT64_C(0x9e3779b97f4a7c15);
    turn = value;
    first = 1;
    links = 6;
}

static uint64_t word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static unsigned below(unsigned n)
{
    return (unsigned)(word() >> 20) % n;
}

/* Returns a number below n. The first choice in a value rotates with `turn`, so that each choice occurs. */
static unsigned choose(unsigned n)
{
    if (first) {
        first = 0;
        return turn % n;
    }
    return below(n);
}

/* Returns a random number. Extreme and small numbers are more frequent than in a uniform distribution. */
static uint64_t number(void)
{
    switch (below(6)) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return UINT64_C(1) << 63 | 1u << 31;
    case 3: return below(100);
    default: return word();
    }
}

/* Returns a length of at most max: mostly short, and sometimes max itself if max is at most 64. */
static u_int length(u_int max)
{
    u_int shorter = max < 13 ? max : 13;
    return max <= 64 && below(4) == 0 ? max : below(shorter + 1);
}

static void fill_opaque(char *data, u_int len)
{
    while (len-- > 0)
        *data++ = (char)word();
}

/* No octet of a string is zero, because a zero octet ends a string in C. */
static char *new_string(u_int len)
{
    char *text = calloc(1, len + 1), *at = text;
    while (len-- > 0)
        *at++ = (char)(1 + below(255));
    return text;
}

static int more(void)
{
    return links > 0 && below(4) > 0 && links--;
}

static void fill_int(int *v) { *v = (int)number(); }
static void fill_u_int(u_int *v) { *v = (u_int)number(); }
static void fill_quad_t(quad_t *v) { *v = (quad_t)number(); }
static void fill_u_quad_t(u_quad_t *v) { *v = (u_quad_t)number(); }
static void fill_bool_t(bool_t *v) { *v = choose(2); }

/* Encodes a value and prints the octets. Decoding and encoding again must give the same octets. */
static void print(const char *type, xdrproc_t proc, void *value, size_t size)
{
    static char bytes[65536], again[65536];
    void *back = calloc(1, size);
    XDR xdr;
    u_int len, at;

    xdrmem_create(&xdr, bytes, sizeof bytes, XDR_ENCODE);
    if (!proc(&xdr, value))
        goto failed;
    len = xdr_getpos(&xdr);
    xdrmem_create(&xdr, bytes, len, XDR_DECODE);
    if (!proc(&xdr, back) || xdr_getpos(&xdr) != len)
        goto failed;
    xdrmem_create(&xdr, again, sizeof again, XDR_ENCODE);
    if (!proc(&xdr, back) || xdr_getpos(&xdr) != len || memcmp(bytes, again, len) != 0)
        goto failed;
    printf("%s ", type);
    for (at = 0; at < len; at++)
        printf("%02x", (unsigned char)bytes[at]);
    printf("\n");
    return;
failed:
    fprintf(stderr, "%s is not encoded\n", type);
    exit(1);
}
