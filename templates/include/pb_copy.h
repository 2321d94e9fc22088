/* Copies between views of one element size: rows of bytes where both innermost axes are contiguous, tiles that are turned where the
 * source is contiguous along another axis, single elements else.
 *
 * Slices, pads, joins, windows and changes of layout are such copies, with rows of any length: a row costs about as many
 * instructions as it has registers. Nests that do nothing else come here, on the tape (pb_nest.h) and in bundles (pgo/codegen_nest.py).
 */
#ifndef PB_COPY_H
#define PB_COPY_H
#include "pb_compiler.h"
#include "pb_width.h"
#include <stdint.h>
#include <string.h>

enum { PB_LONG_COPY = 1024 }; /* bytes of a row from which on the C library's copy is worth its call */

/* --- rows ------------------------------------------------------------------------------------------------------------------ */

/* n <= bytes <= 2 * n: both ends. All is read before anything is written, so a row may be copied to where it lies. */
PB_INLINE void pb_copy_ends(char *to, const char *from, int64_t bytes, const int n) {
    char head[n], tail[n];
    memcpy(head, from, n), memcpy(tail, from + bytes - n, n);
    memcpy(to, head, n), memcpy(to + bytes - n, tail, n);
}

static void pb_copy_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes, int64_t rows) {
#define PB_EACH_ROW for (; rows > 0; rows--, to += to_step, from += from_step)
    if (bytes >= PB_LONG_COPY) {
        PB_EACH_ROW memmove(to, from, (size_t)bytes);
    } else if (bytes >= PB_VECTOR_BYTES) {
        PB_EACH_ROW {
            char last[PB_VECTOR_BYTES];
            memcpy(last, from + bytes - PB_VECTOR_BYTES, PB_VECTOR_BYTES);
            for (int64_t i = 0; i < bytes - PB_VECTOR_BYTES; i += PB_VECTOR_BYTES) memcpy(to + i, from + i, PB_VECTOR_BYTES);
            memcpy(to + bytes - PB_VECTOR_BYTES, last, PB_VECTOR_BYTES);
        }
    } else if (bytes >= 32) {
        PB_EACH_ROW pb_copy_ends(to, from, bytes, 32);
    } else if (bytes >= 16) {
        PB_EACH_ROW pb_copy_ends(to, from, bytes, 16);
    } else if (bytes >= 8) {
        PB_EACH_ROW pb_copy_ends(to, from, bytes, 8);
    } else if (bytes >= 4) {
        PB_EACH_ROW pb_copy_ends(to, from, bytes, 4);
    } else {
        PB_EACH_ROW for (int64_t i = 0; i < bytes; i++) to[i] = from[i];
    }
#undef PB_EACH_ROW
}

/* --- single elements --------------------------------------------------------------------------------------------------------- */

#define PB_IN_ORDER(x) __asm__ volatile("" : "+r"(x))
/* One element over and over, every other one and the reverse of a row are vector code: their steps are known to the compiler.
 * With others it would take vectors apart, which is slower than one element after the other. */
#define PB_COPY_ELEMENTS(bits)                                                                                          \
    typedef uint##bits##_t pb_any##bits __attribute__((aligned(1), may_alias));                                         \
    PB_INLINE void pb_copy_steps##bits(char *restrict to, const int64_t to_step, const char *restrict from,                  \
                                       const int64_t from_step, int64_t n) {                                            \
        for (int64_t i = 0; i < n; i++) *(pb_any##bits *)(to + i * to_step) = *(const pb_any##bits *)(from + i * from_step); \
    }                                                                                                                   \
    static void pb_copy_each##bits(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) {         \
        const int64_t item = bits / 8;                                                                                  \
        if (to_step == item && from_step == 0) pb_copy_steps##bits(to, item, from, 0, n);                               \
        else if (to_step == item && from_step == 2 * item) pb_copy_steps##bits(to, item, from, 2 * item, n);                 \
        else if (to_step == item && from_step == -item) pb_copy_steps##bits(to, item, from, -item, n);                  \
        else                                                                                                            \
            PB_UNROLL(4) for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {                            \
                pb_any##bits x = *(const pb_any##bits *)from;                                                           \
                PB_IN_ORDER(x);                                                                                         \
                *(pb_any##bits *)to = x;                                                                                \
            }                                                                                                           \
    }
PB_COPY_ELEMENTS(8) PB_COPY_ELEMENTS(16) PB_COPY_ELEMENTS(32) PB_COPY_ELEMENTS(64)

typedef void (*pb_copy_fn)(char *, int64_t, const char *, int64_t, int64_t);
static pb_copy_fn pb_copy_each(int32_t item) {
    return item == 1 ? pb_copy_each8 : item == 2 ? pb_copy_each16 : item == 4 ? pb_copy_each32 : pb_copy_each64;
}

/* --- turned tiles ------------------------------------------------------------------------------------------------------------ */

/* n x n elements, n of them a register of 16 bytes: the rows of the source become columns. Each round interleaves the first half
 * of the registers with the second; after as many rounds as n has bits, every element stands in its place. */
#if __has_builtin(__builtin_shufflevector)
#define PB_INTERLEAVE(bits, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PB_INTERLEAVE(bits, a, b, ...) __builtin_shuffle(a, b, (pb_line##bits){__VA_ARGS__})
#endif
#define PB_FIRST64 0, 2
#define PB_SECOND64 1, 3
#define PB_FIRST32 0, 4, 1, 5
#define PB_SECOND32 2, 6, 3, 7
#define PB_FIRST16 0, 8, 1, 9, 2, 10, 3, 11
#define PB_SECOND16 4, 12, 5, 13, 6, 14, 7, 15
#define PB_FIRST8 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define PB_SECOND8 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define PB_TURN(bits, n)                                                                                                \
    typedef uint##bits##_t pb_line##bits __attribute__((vector_size(16)));                                              \
    typedef uint##bits##_t pb_linemem##bits __attribute__((vector_size(16), aligned(1), may_alias));                    \
    PB_INLINE void pb_turn##bits(char *to, int64_t to_step, const char *from, int64_t from_step) {                           \
        pb_line##bits x[n], y[n];                                                                                       \
        PB_UNROLL(16) for (int i = 0; i < n; i++) x[i] = *(const pb_linemem##bits *)(from + i * from_step);             \
        PB_UNROLL(16) for (int round = 1; round < n; round *= 2) {                                                      \
            PB_UNROLL(16) for (int i = 0; i < n / 2; i++) {                                                             \
                y[2 * i] = PB_INTERLEAVE(bits, x[i], x[i + n / 2], PB_FIRST##bits);                                     \
                y[2 * i + 1] = PB_INTERLEAVE(bits, x[i], x[i + n / 2], PB_SECOND##bits);                                \
            }                                                                                                           \
            PB_UNROLL(16) for (int i = 0; i < n; i++) x[i] = y[i];                                                      \
        }                                                                                                               \
        PB_UNROLL(16) for (int i = 0; i < n; i++) *(pb_linemem##bits *)(to + i * to_step) = x[i];                       \
    }

/* rows: along which the source is contiguous, `to_step` bytes apart in the result; cols: the other way round. Columns are
 * taken sixteen at a time, whose lines stay in the first-level cache from one row to the next. */
#define PB_COPY_TURNED(bits, n)                                                                                         \
    static void pb_copy_turned##bits(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows,      \
                                     int64_t cols) {                                                                    \
        for (int64_t j = 0; j < cols; j += 16) {                                                                        \
            const int64_t end = cols - j < 16 ? cols : j + 16, whole = j + (end - j) / n * n;                           \
            int64_t i = 0;                                                                                              \
            for (; i + n <= rows; i += n) {                                                                             \
                const char *in = from + i * (bits / 8);                                                                 \
                char *out = to + i * to_step;                                                                           \
                for (int64_t x = j; x < whole; x += n) pb_turn##bits(out + x * (bits / 8), to_step, in + x * from_step, from_step); \
                for (int64_t r = 0; r < n && whole < end; r++)                                                          \
                    pb_copy_each##bits(out + r * to_step + whole * (bits / 8), bits / 8,                                \
                                       in + r * (bits / 8) + whole * from_step, from_step, end - whole);                \
            }                                                                                                           \
            for (; i < rows; i++)                                                                                       \
                pb_copy_each##bits(to + i * to_step + j * (bits / 8), bits / 8, from + i * (bits / 8) + j * from_step,  \
                                   from_step, end - j);                                                                 \
        }                                                                                                               \
    }
PB_TURN(8, 16) PB_TURN(16, 8) PB_TURN(32, 4) PB_TURN(64, 2)
PB_COPY_TURNED(8, 16) PB_COPY_TURNED(16, 8) PB_COPY_TURNED(32, 4) PB_COPY_TURNED(64, 2)

typedef void (*pb_turn_fn)(char *, int64_t, const char *, int64_t, int64_t, int64_t);
static pb_turn_fn pb_copy_turned(int32_t item) {
    return item == 1 ? pb_copy_turned8 : item == 2 ? pb_copy_turned16 : item == 4 ? pb_copy_turned32 : pb_copy_turned64;
}

/* --- the space --------------------------------------------------------------------------------------------------------------- */

/* A copy's axes, outermost first: extents, byte strides of the result and of the source. */
typedef struct {
    int32_t d, item;
    int64_t *n, *to, *from;
} pb_copy_space;

/* Axes stand as they lie in the result; what both see as one axis becomes one. */
static void pb_order_copy(pb_copy_space *c) {
    int32_t d = 0;
    for (int32_t j = 0; j < c->d; j++) {
        const int64_t n = c->n[j], to = c->to[j], from = c->from[j], size = to < 0 ? -to : to;
        int32_t i = d;
        if (n == 1) continue;
        for (; i > 0 && (c->to[i - 1] < 0 ? -c->to[i - 1] : c->to[i - 1]) < size; i--)
            c->n[i] = c->n[i - 1], c->to[i] = c->to[i - 1], c->from[i] = c->from[i - 1];
        c->n[i] = n, c->to[i] = to, c->from[i] = from, d++;
    }
    if (d == 0) c->n[0] = 1, c->to[0] = c->from[0] = c->item, d = 1;
    c->d = 1;
    for (int32_t j = 1; j < d; j++) {
        const int32_t i = c->d - 1;
        if (c->to[i] == c->to[j] * c->n[j] && c->from[i] == c->from[j] * c->n[j]) {
            c->n[i] *= c->n[j], c->to[i] = c->to[j], c->from[i] = c->from[j];
        } else {
            c->n[c->d] = c->n[j], c->to[c->d] = c->to[j], c->from[c->d] = c->from[j], c->d++;
        }
    }
}

/* The axis along which the source of a contiguous result is contiguous, if tiles are worth turning; else -1. */
static int32_t pb_turned_axis(const pb_copy_space *c) {
    const int32_t t = c->d - 1;
    if (c->to[t] != c->item || c->from[t] == c->item || c->n[t] * c->item < 16) return -1;
    for (int32_t j = 0; j < t; j++)
        if (c->from[j] == c->item && c->n[j] * c->item >= 16) return j;
    return -1;
}

/* to[...] = from[...] over d axes of extents n; strides in bytes. The arrays are scratch, of d + 1 elements. A view may be copied
 * onto itself; else the two must not overlap. */
static PB_APART void pb_copy(char *to, const char *from, int32_t item, int32_t d, int64_t *n, int64_t *to_strides, int64_t *from_strides) {
    pb_copy_space c = {.d = d, .item = item, .n = n, .to = to_strides, .from = from_strides};
    for (int32_t j = 0; j < d; j++)
        if (n[j] <= 0) return;
    pb_order_copy(&c);
    const int32_t t = c.d - 1, turned = pb_turned_axis(&c), inner = turned < 0 ? t - 1 : turned;
    const int is_rows = c.from[t] == item && c.to[t] == item;
    const pb_copy_fn each = pb_copy_each(item);
    /* done at once: the innermost axis, and `inner`, if there is one */
    const int64_t length = n[t], rows = inner < 0 ? 1 : n[inner];
    const int64_t to_step = inner < 0 ? 0 : c.to[inner], from_step = inner < 0 ? 0 : c.from[inner];
    int64_t at[c.d];
    for (int32_t j = 0; j < t; j++) at[j] = 0;
    for (;;) {
        if (is_rows) pb_copy_rows(to, to_step, from, from_step, length * item, rows);
        else if (turned >= 0) pb_copy_turned(item)(to, to_step, from, c.from[t], rows, length);
        else for (int64_t i = 0; i < rows; i++) each(to + i * to_step, c.to[t], from + i * from_step, c.from[t], length);
        int32_t j = t - 1;
        for (; j >= 0; j--) {
            if (j == inner) continue;
            from += c.from[j], to += c.to[j];
            if (++at[j] < n[j]) break;
            from -= c.from[j] * n[j], to -= c.to[j] * n[j], at[j] = 0;
        }
        if (j < 0) return;
    }
}
#endif
