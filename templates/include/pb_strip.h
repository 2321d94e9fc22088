/* Runs of cheap operations, a strip of eight vectors at a time: the value in flight stays in registers.
 *
 * A block stencil reads its operands from L1 and writes its result there, which costs more than an addition does. So runs of
 * cheap operations over one dtype (STRIPS of templates/stencils.py) become a list of micro-operations for an accumulator machine: each takes
 * the accumulator (eight vectors, which are its arguments), its other operand from memory, and ends in a call of the next
 * one, which the compiler turns into a jump; the last entry goes to the next strip. Forms of f(first, second):
 * `am` accumulator and memory, `ma` the other way round, `as` and `sa` with a scalar, `mm`, `ms`, `sm` without the accumulator;
 * `a` and `m` of f(x). The accumulator is stored where something else than the next operation reads it (pb_bind_strips).
 *
 * Lists that do whole rows (pb_nest_rows.h) reduce on their way: `sum`, `max` and `min` take the accumulator and pass it on. The last
 * strip of such a row may begin among elements that are done; these it makes once more, and sums leave them out.
 */
#ifndef PB_STRIP_H
#define PB_STRIP_H
#ifndef __OPTIMIZE__
#error "without optimisation the calls that end micro-operations would fill the stack"
#endif
#include "pb_compiler.h"
#include "pb_lanes.h"
#include "pb_scalar.h"
#include "pb_vector.h"
#include "pb_width.h"

enum {
    PB_STRIP_BYTES = 8 * PB_VECTOR_BYTES,
    PB_FORM_AM = 0, PB_FORM_MA, PB_FORM_AS, PB_FORM_SA, PB_FORM_MM, PB_FORM_MS, PB_FORM_SM, PB_FORMS,
    PB_FORM_A = 0, PB_FORM_M = 1
};

typedef void (*pb_any_fn)(void);
typedef struct {
    pb_any_fn fn;
    char **from[2];      /* where the addresses of the operands in memory stand, first and second */
    char *p, *q;         /* those addresses, for this tile or window */
    int64_t step[2];     /* from a row to the next one; rows only, as what follows */
    int64_t moves;       /* from a window to the next one: bit 0, p does; bit 1, q does */
} pb_micro;

/* Of pb_nest_rows.h. Where the list goes on after a window, or -1: that was the last one. Whether there are more rows. */
static int64_t pb_next_window(pb_micro *window);
static int pb_next_rows(pb_micro *row);

#define PB_STRIP_TYPES(T)                                                                                               \
    typedef pb_##T pb_acc_##T __attribute__((vector_size(PB_VECTOR_BYTES)));                                            \
    typedef pb_##T pb_accmem_##T __attribute__((vector_size(PB_VECTOR_BYTES), aligned(sizeof(pb_##T)), may_alias));     \
    typedef void (*pb_strip_##T)(const pb_micro *m, int64_t at, pb_acc_##T a0, pb_acc_##T a1, pb_acc_##T a2, pb_acc_##T a3,\
                                 pb_acc_##T a4, pb_acc_##T a5, pb_acc_##T a6, pb_acc_##T a7);                           \
    PB_INLINE pb_acc_##T pb_spread_##T(const char *p) { return *(const pb_##T *)p - (pb_acc_##T){0}; }                  \
    static void pb_strip_run_##T(const pb_micro *m, int64_t at) {                                                       \
        pb_acc_##T z = {0};                                                                                             \
        ((pb_strip_##T)m->fn)(m, at, z, z, z, z, z, z, z, z);                                                           \
    }                                                                                                                   \
    PB_STRIP_BEGIN(end, T) /* p: the list's first entry, q: how many bytes there are */                                 \
        at += PB_STRIP_BYTES;                                                                                           \
        if (at >= (intptr_t)m->q) return;                                                                               \
        m = (const pb_micro *)m->p - 1;                                                                                 \
    PB_STRIP_NEXT(T)                                                                                                    \
    PB_STRIP_ENDS(T, store,                                                                                             \
        pb_accmem_##T *p = (pb_accmem_##T *)(m->p + at);                                                                \
        p[0] = a0, p[1] = a1, p[2] = a2, p[3] = a3, p[4] = a4, p[5] = a5, p[6] = a6, p[7] = a7;)                        \
    PB_STRIP_BEGIN(load, T)                                                                                             \
        const pb_accmem_##T *p = (const pb_accmem_##T *)(m->p + at);                                                    \
        a0 = p[0], a1 = p[1], a2 = p[2], a3 = p[3], a4 = p[4], a5 = p[5], a6 = p[6], a7 = p[7];                         \
    PB_STRIP_NEXT(T)                                                                                                    \
    PB_STRIP_BEGIN(more_windows, T)                                                                                     \
        at = pb_next_window((pb_micro *)m);                                                                             \
        if (at >= 0) m = (const pb_micro *)m->p - 1;                                                                    \
    PB_STRIP_ANEW(T)                                                                                                    \
    PB_STRIP_BEGIN(window, T) /* p, q: as `end`; from[1]: bytes after the last whole strip; moves: other windows may follow */\
        at += PB_STRIP_BYTES;                                                                                           \
        if (at < (intptr_t)m->q) {                                                                                      \
            m = (const pb_micro *)m->p - 1;                                                                             \
        } else if (at == (intptr_t)m->q && m->from[1]) {                                                                \
            at += (intptr_t)m->from[1] - PB_STRIP_BYTES, m = (const pb_micro *)m->p - 1;                                \
        } else if (m->moves) {                                                                                          \
            pb_strip_more_windows_##T(m, at, a0, a1, a2, a3, a4, a5, a6, a7);                                           \
            return;                                                                                                     \
        }                                                                                                               \
    PB_STRIP_NEXT(T)                                                                                                    \
    PB_STRIP_BEGIN(more_rows, T)                                                                                        \
        if (!pb_next_rows((pb_micro *)m)) return;                                                                       \
        m = (const pb_micro *)m->p - 1, at = 0;                                                                         \
    PB_STRIP_ANEW(T)                                                                                                    \
    PB_STRIP_BEGIN(row, T) /* p: the list's first entry, q: how many rows are left */                                   \
        pb_micro *first = (pb_micro *)m->p;                                                                             \
        if ((intptr_t)m->q <= 1) {                                                                                      \
            pb_strip_more_rows_##T(m, at, a0, a1, a2, a3, a4, a5, a6, a7);                                              \
            return;                                                                                                     \
        }                                                                                                               \
        ((pb_micro *)m)->q--;                                                                                           \
        for (pb_micro *x = first; x < m; x++) {                                                                         \
            x->p += x->step[0], x->q += x->step[1];                                                                     \
            __asm__(""); /* no vectors of these: they would be read sooner than they are written */                     \
        }                                                                                                               \
        m = first - 1, at = 0;                                                                                          \
    PB_STRIP_NEXT(T)
#define PB_STRIP_BEGIN(name, T)                                                                                         \
    PB_APART static void pb_strip_##name##_##T(const pb_micro *m, int64_t at, pb_acc_##T a0, pb_acc_##T a1, pb_acc_##T a2, \
                                               pb_acc_##T a3, pb_acc_##T a4, pb_acc_##T a5, pb_acc_##T a6, pb_acc_##T a7) {
#define PB_STRIP_NEXT(T) ((pb_strip_##T)m[1].fn)(m + 1, at, a0, a1, a2, a3, a4, a5, a6, a7); }
/* As NEXT where the accumulator holds nothing: what was called meanwhile need not preserve it. */
#define PB_STRIP_ANEW(T) a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = (pb_acc_##T){0}; PB_STRIP_NEXT(T)
/* Where `window` is next: to the next strip at once, if there is one. */
#define PB_STRIP_LOOP(T)                                                                                                \
        if (at + PB_STRIP_BYTES < (intptr_t)m[1].q) at += PB_STRIP_BYTES, m = (const pb_micro *)m[1].p - 1;             \
    PB_STRIP_NEXT(T)
#define PB_STRIP_ENDS(T, name, ...)                                                                                     \
    PB_STRIP_BEGIN(name, T) __VA_ARGS__ PB_STRIP_NEXT(T)                                                                \
    PB_STRIP_BEGIN(name##_loop, T) __VA_ARGS__ PB_STRIP_LOOP(T)

#define PB_STRIP_P(T) const pb_accmem_##T *p = (const pb_accmem_##T *)(m->p + at);
#define PB_STRIP_Q(T) const pb_accmem_##T *q = (const pb_accmem_##T *)(m->q + at);
#define PB_STRIP_ALL(f, X, Y)                                                                                           \
    a0 = f(X(0), Y(0)), a1 = f(X(1), Y(1)), a2 = f(X(2), Y(2)), a3 = f(X(3), Y(3));                                     \
    a4 = f(X(4), Y(4)), a5 = f(X(5), Y(5)), a6 = f(X(6), Y(6)), a7 = f(X(7), Y(7));
#define PB_IN_A(i) a##i
#define PB_IN_P(i) p[i]
#define PB_IN_Q(i) q[i]
#define PB_IN_S(i) s

/* Compute r here: left alone, GCC expands the last step of all eight at the call that takes them, and spills what these wait for. */
#if defined(__SSE2__) && defined(__GNUC__) && defined(PB_VECTORS_ARE_REGISTERS)
#define PB_STRIP_HERE(r) __asm__("" : "+v"(r))
#else
#define PB_STRIP_HERE(r) (void)0
#endif

#define PB_STRIP2(op, T) PB_STRIP_FORMS2(op, T, pb_v_##op##_##T, PB_STRIP_ANY)
#define PB_STRIP_ANY(op_form, T, X)
/* maximum and minimum, whose instructions lose a NaN of the first operand: such are seldom there, and looked for once a strip. */
#define PB_STRIP2_EXTREME(op, wins, T)                                                                                  \
    PB_STRIP_FORMS2(careful_##op, T, pb_v_##op##_##T, PB_STRIP_ANY)                                                     \
    PB_STRIP_FORMS2(op, T, pb_v_##wins##_##T, PB_STRIP_NUMBERS)
#define PB_STRIP_NUMBERS(op_form, T, X)                                                                                 \
    if (__builtin_expect(!pb_v_numbers_##T(X(0), X(1), X(2), X(3)) | !pb_v_numbers_##T(X(4), X(5), X(6), X(7)), 0)) {   \
        pb_strip_careful_##op_form##_##T(m, at, a0, a1, a2, a3, a4, a5, a6, a7);                                        \
        return;                                                                                                         \
    }
#define PB_STRIP_FORMS2(op, T, f, CHECK)                                                                                \
    PB_INLINE pb_acc_##T pb_vector_##op##_##T(pb_acc_##T x, pb_acc_##T y) {                                             \
        pb_acc_##T r = f(x, y);                                                                                         \
        PB_STRIP_HERE(r);                                                                                               \
        return r;                                                                                                       \
    }                                                                                                                   \
    PB_STRIP_BEGIN(op##_am, T) PB_STRIP_Q(T) CHECK(op##_am, T, PB_IN_A)                                                 \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_Q) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_ma, T) PB_STRIP_P(T) CHECK(op##_ma, T, PB_IN_P)                                                 \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_A) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_as, T) CHECK(op##_as, T, PB_IN_A)                                                               \
        pb_acc_##T s = pb_spread_##T(m->q);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_S) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_sa, T)                                                                                          \
        pb_acc_##T s = pb_spread_##T(m->p);                                                                             \
        CHECK(op##_sa, T, PB_IN_S)                                                                                      \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_S, PB_IN_A) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_mm, T) PB_STRIP_P(T) PB_STRIP_Q(T) CHECK(op##_mm, T, PB_IN_P)                                   \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_Q) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_ms, T) PB_STRIP_P(T) CHECK(op##_ms, T, PB_IN_P)                                                 \
        pb_acc_##T s = pb_spread_##T(m->q);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_S) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_sm, T) PB_STRIP_Q(T)                                                                            \
        pb_acc_##T s = pb_spread_##T(m->p);                                                                             \
        CHECK(op##_sm, T, PB_IN_S)                                                                                      \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_S, PB_IN_Q) PB_STRIP_NEXT(T)
#define PB_STRIP_ROW2(op, T)                                                                                            \
    (pb_any_fn)pb_strip_##op##_am_##T, (pb_any_fn)pb_strip_##op##_ma_##T, (pb_any_fn)pb_strip_##op##_as_##T,            \
    (pb_any_fn)pb_strip_##op##_sa_##T, (pb_any_fn)pb_strip_##op##_mm_##T, (pb_any_fn)pb_strip_##op##_ms_##T,            \
    (pb_any_fn)pb_strip_##op##_sm_##T

#define PB_STRIP1(op, T)                                                                                                \
    PB_INLINE pb_acc_##T pb_vector_##op##_##T(pb_acc_##T x, pb_acc_##T y) {                                             \
        pb_acc_##T r = pb_v_##op##_##T(x);                                                                              \
        PB_STRIP_HERE(r);                                                                                               \
        return (void)y, r;                                                                                              \
    }                                                                                                                   \
    PB_STRIP_BEGIN(op##_a, T) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_A) PB_STRIP_NEXT(T)                     \
    PB_STRIP_BEGIN(op##_m, T) PB_STRIP_P(T) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_P) PB_STRIP_NEXT(T)
#define PB_STRIP_ROW1(op, T) (pb_any_fn)pb_strip_##op##_a_##T, (pb_any_fn)pb_strip_##op##_m_##T

PB_STRIP_TYPES(f32)
PB_STRIP_TYPES(f64)

/* A strip of zeros, then one of bits that are set: from byte n on, those of the last n bytes of a strip are. */
static const int8_t pb_last_bytes[2 * PB_STRIP_BYTES] = {[PB_STRIP_BYTES ... 2 * PB_STRIP_BYTES - 1] = -1};

/* Eight vectors meet in a tree. f32 goes on in f64, which then needs no care; f64 as pb_next_window has it. */
PB_INLINE void pb_strip_add_f32(pb_acc_f64 *low, pb_acc_f64 *high, pb_acc_f32 x) { *low += pb_v_low_f64(x), *high += pb_v_high_f64(x); }
PB_INLINE void pb_strip_add_f64(pb_acc_f64 *low, pb_acc_f64 *high, pb_acc_f64 x) { *low += x, (void)high; }

/* What the reduction of a row holds. Strips take turns, so that one need not wait for the other. */
#define PB_STRIP_HELD(T, B)                                                                                             \
    typedef struct {                                                                                                    \
        pb_acc_##T best[2];                                                                                             \
        pb_v_##B nan[2];                                                                                                \
        pb_acc_f64 sums[4];                                                                                             \
        pb_f64 total, lost; /* of windows before this one, as pb_add_exactly has it */                                  \
    } pb_held_##T;                                                                                                      \
    PB_INLINE pb_acc_##T pb_strip_new_##T(pb_acc_##T x, const int8_t *is_new) { /* -0 elsewhere, which changes no sum */\
        const pb_v_i32 w = *(const pb_vmem_i32 *)is_new;                                                                \
        return (pb_acc_##T)(((pb_v_i32)x & w) | ((pb_v_i32)pb_v_fill_##T((pb_##T)-0.0) & ~w));                          \
    }                                                                                                                   \
    PB_INLINE pb_acc_##T pb_strip_total_##T(int64_t left, pb_acc_##T a0, pb_acc_##T a1, pb_acc_##T a2, pb_acc_##T a3,   \
                                            pb_acc_##T a4, pb_acc_##T a5, pb_acc_##T a6, pb_acc_##T a7) {               \
        const int8_t *w = pb_last_bytes + left;                                                                         \
        if (__builtin_expect(left == 0, 1)) return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7));                   \
        a0 = pb_strip_new_##T(a0, w) + pb_strip_new_##T(a1, w + PB_VECTOR_BYTES);                                       \
        a2 = pb_strip_new_##T(a2, w + 2 * PB_VECTOR_BYTES) + pb_strip_new_##T(a3, w + 3 * PB_VECTOR_BYTES);             \
        a4 = pb_strip_new_##T(a4, w + 4 * PB_VECTOR_BYTES) + pb_strip_new_##T(a5, w + 5 * PB_VECTOR_BYTES);             \
        a6 = pb_strip_new_##T(a6, w + 6 * PB_VECTOR_BYTES) + pb_strip_new_##T(a7, w + 7 * PB_VECTOR_BYTES);             \
        return (a0 + a2) + (a4 + a6);                                                                                   \
    }                                                                                                                   \
    PB_STRIP_ENDS(T, sum,                                                                                               \
        pb_acc_f64 *sums = ((pb_held_##T *)m->p)->sums + 2 * ((at & PB_STRIP_BYTES) != 0);                                  \
        pb_strip_add_##T(sums, sums + 1, pb_strip_total_##T(at & (PB_STRIP_BYTES - 1), a0, a1, a2, a3, a4, a5, a6, a7));)\
    PB_STRIP_BEGIN(sum_m, T) /* q: what is added up; `window` is next */                                                \
        const pb_accmem_##T *q = (const pb_accmem_##T *)(m->q + at);                                                    \
        const int64_t left = at & (PB_STRIP_BYTES - 1), end = (intptr_t)m[1].q - PB_STRIP_BYTES;                        \
        pb_acc_f64 *sums = ((pb_held_##T *)m->p)->sums, low = sums[0], high = sums[1];                                  \
        if (left) {                                                                                                     \
            pb_strip_add_##T(&low, &high, pb_strip_total_##T(left, q[0], q[1], q[2], q[3], q[4], q[5], q[6], q[7]));    \
        } else {                                                                                                        \
            a0 = ((q[0] + q[1]) + (q[2] + q[3])) + ((q[4] + q[5]) + (q[6] + q[7]));                                     \
            for (; at < end; at += PB_STRIP_BYTES) { /* one strip ahead of the sums */                                  \
                a1 = a0, q += 8, a0 = ((q[0] + q[1]) + (q[2] + q[3])) + ((q[4] + q[5]) + (q[6] + q[7]));                \
                pb_strip_add_##T(&low, &high, a1);                                                                      \
            }                                                                                                           \
            pb_strip_add_##T(&low, &high, a0);                                                                          \
        }                                                                                                               \
        sums[0] = low, sums[1] = high;                                                                                  \
    PB_STRIP_NEXT(T)                                                                                                    \
    PB_STRIP_BEST(max, pb_v_greater_##T, T, B)                                                                          \
    PB_STRIP_BEST(min, pb_v_lesser_##T, T, B)
/* The extremum of the numbers, and where there was a NaN. */
#define PB_STRIP_BEST(name, wins, T, B)                                                                                 \
    PB_STRIP_ENDS(T, name,                                                                                              \
        pb_acc_##T *best = ((pb_held_##T *)m->p)->best + ((at & PB_STRIP_BYTES) != 0);                                  \
        pb_v_##B *nan = (pb_v_##B *)best + 2;                                                                           \
        *best = wins(wins(wins(wins(a0, a1), wins(a2, a3)), wins(wins(a4, a5), wins(a6, a7))), *best);                  \
        *nan |= (pb_v_nans_##T(a0, a1) | pb_v_nans_##T(a2, a3)) | (pb_v_nans_##T(a4, a5) | pb_v_nans_##T(a6, a7));)     \
    PB_STRIP_BEGIN(name##_m, T)                                                                                         \
        const pb_accmem_##T *q = (const pb_accmem_##T *)(m->q + at);                                                    \
        pb_acc_##T *best = ((pb_held_##T *)m->p)->best;                                                                 \
        pb_v_##B *nan = (pb_v_##B *)best + 2, odd = *nan, more = odd;                                                   \
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = *best;                                                                  \
        for (;; at += PB_STRIP_BYTES, q += 8) {                                                                         \
            a0 = wins(a0, q[0]), a1 = wins(a1, q[1]), a2 = wins(a2, q[2]), a3 = wins(a3, q[3]);                         \
            a4 = wins(a4, q[4]), a5 = wins(a5, q[5]), a6 = wins(a6, q[6]), a7 = wins(a7, q[7]);                         \
            odd |= pb_v_nans_##T(q[0], q[1]) | pb_v_nans_##T(q[2], q[3]);                                               \
            more |= pb_v_nans_##T(q[4], q[5]) | pb_v_nans_##T(q[6], q[7]);                                              \
            if (at + PB_STRIP_BYTES >= (intptr_t)m[1].q) break;                                                         \
        }                                                                                                               \
        *best = wins(wins(wins(a0, a1), wins(a2, a3)), wins(wins(a4, a5), wins(a6, a7))), *nan = odd | more;            \
    PB_STRIP_NEXT(T)
PB_STRIP_HELD(f32, b32)
PB_STRIP_HELD(f64, b64)
#endif
