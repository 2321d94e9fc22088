/* Runs of cheap operations, a strip of eight vectors at a time: the value in flight stays in registers.
 *
 * A block stencil reads its operands from L1 and writes its result there, which costs more than an addition does. So runs of
 * cheap operations over one dtype (STRIPS of templates/stencils.py) become a list of micro-operations for an accumulator machine: each takes
 * the accumulator (eight vectors, which are its arguments), its other operand from memory, and ends in a call of the next
 * one, which the compiler turns into a jump; the last entry goes to the next strip. Forms of f(first, second):
 * `am` accumulator and memory, `ma` the other way round, `as` and `sa` with a scalar, `mm`, `ms`, `sm` without the accumulator;
 * `a` and `m` of f(x). The accumulator is stored where something else than the next operation reads it (pb_bind_strips).
 */
#ifndef PB_STRIP_H
#define PB_STRIP_H
#ifndef __OPTIMIZE__
#error "without optimisation the calls that end micro-operations would fill the stack"
#endif
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
    const char *p, *q;   /* those addresses, for this tile */
} pb_micro;

#define PB_STRIP_TYPES(T)                                                                                               \
    typedef pb_##T pb_acc_##T __attribute__((vector_size(PB_VECTOR_BYTES)));                                            \
    typedef pb_##T pb_accmem_##T __attribute__((vector_size(PB_VECTOR_BYTES), aligned(sizeof(pb_##T)), may_alias));       \
    typedef void (*pb_strip_##T)(const pb_micro *m, int64_t at, pb_acc_##T a0, pb_acc_##T a1, pb_acc_##T a2, pb_acc_##T a3, \
                                 pb_acc_##T a4, pb_acc_##T a5, pb_acc_##T a6, pb_acc_##T a7);                           \
    PB_INLINE pb_acc_##T pb_spread_##T(const char *p) { return *(const pb_##T *)p - (pb_acc_##T){0}; }                  \
    PB_STRIP_BEGIN(end, T) /* p: the list's first entry, q: how many bytes there are */                                 \
        at += PB_STRIP_BYTES;                                                                                           \
        if (at >= (intptr_t)m->q) return;                                                                               \
        m = (const pb_micro *)m->p - 1;                                                                                 \
    PB_STRIP_NEXT(T)                                                                                                    \
    PB_STRIP_BEGIN(store, T)                                                                                            \
        pb_accmem_##T *p = (pb_accmem_##T *)(m->p + at);                                                                    \
        p[0] = a0, p[1] = a1, p[2] = a2, p[3] = a3, p[4] = a4, p[5] = a5, p[6] = a6, p[7] = a7;                         \
    PB_STRIP_NEXT(T)                                                                                                    \
    static void pb_strip_run_##T(const pb_micro *m, int64_t at) {                                                       \
        pb_acc_##T z = {0};                                                                                             \
        ((pb_strip_##T)m->fn)(m, at, z, z, z, z, z, z, z, z);                                                           \
    }
#define PB_STRIP_BEGIN(name, T)                                                                                         \
    static void pb_strip_##name##_##T(const pb_micro *m, int64_t at, pb_acc_##T a0, pb_acc_##T a1, pb_acc_##T a2,       \
                                      pb_acc_##T a3, pb_acc_##T a4, pb_acc_##T a5, pb_acc_##T a6, pb_acc_##T a7) {
#define PB_STRIP_NEXT(T) ((pb_strip_##T)m[1].fn)(m + 1, at, a0, a1, a2, a3, a4, a5, a6, a7); }

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
#if defined(__SSE2__) && defined(__GNUC__)
#define PB_STRIP_HERE(r) __asm__("" : "+v"(r))
#else
#define PB_STRIP_HERE(r) (void)0
#endif

#define PB_STRIP2(op, T)                                                                                                \
    PB_INLINE pb_acc_##T pb_vector_##op##_##T(pb_acc_##T x, pb_acc_##T y) {                                             \
        pb_acc_##T r = pb_v_##op##_##T(x, y);                                                                           \
        PB_STRIP_HERE(r);                                                                                               \
        return r;                                                                                                       \
    }                                                                                                                   \
    PB_STRIP_BEGIN(op##_am, T) PB_STRIP_Q(T) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_Q) PB_STRIP_NEXT(T)      \
    PB_STRIP_BEGIN(op##_ma, T) PB_STRIP_P(T) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_A) PB_STRIP_NEXT(T)      \
    PB_STRIP_BEGIN(op##_as, T)                                                                                          \
        pb_acc_##T s = pb_spread_##T(m->q);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_S) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_sa, T)                                                                                          \
        pb_acc_##T s = pb_spread_##T(m->p);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_S, PB_IN_A) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_mm, T) PB_STRIP_P(T) PB_STRIP_Q(T)                                                              \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_Q) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_ms, T) PB_STRIP_P(T)                                                                            \
        pb_acc_##T s = pb_spread_##T(m->q);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_S) PB_STRIP_NEXT(T)                                           \
    PB_STRIP_BEGIN(op##_sm, T) PB_STRIP_Q(T)                                                                            \
        pb_acc_##T s = pb_spread_##T(m->p);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_S, PB_IN_Q) PB_STRIP_NEXT(T)
#define PB_STRIP_ROW2(op, T)                                                                                            \
    (pb_any_fn)pb_strip_##op##_am_##T, (pb_any_fn)pb_strip_##op##_ma_##T, (pb_any_fn)pb_strip_##op##_as_##T,            \
    (pb_any_fn)pb_strip_##op##_sa_##T, (pb_any_fn)pb_strip_##op##_mm_##T, (pb_any_fn)pb_strip_##op##_ms_##T,            \
    (pb_any_fn)pb_strip_##op##_sm_##T

#define PB_STRIP1(op, T)                                                                                                \
    PB_INLINE pb_acc_##T pb_vector_##op##_##T(pb_acc_##T x, pb_acc_##T y) {                                             \
        (void)y;                                                                                                        \
        return pb_v_##op##_##T(x);                                                                                      \
    }                                                                                                                   \
    PB_STRIP_BEGIN(op##_a, T) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_A) PB_STRIP_NEXT(T)                     \
    PB_STRIP_BEGIN(op##_m, T) PB_STRIP_P(T) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_P) PB_STRIP_NEXT(T)
#define PB_STRIP_ROW1(op, T) (pb_any_fn)pb_strip_##op##_a_##T, (pb_any_fn)pb_strip_##op##_m_##T

PB_STRIP_TYPES(f32)
PB_STRIP_TYPES(f64)

/* p: two vectors of f64 that the accumulator is added to, as pb_row_sum_f32 adds a row */
typedef pb_f32 pb_acc_half_f32 __attribute__((vector_size(PB_VECTOR_BYTES / 2)));
PB_STRIP_BEGIN(sum, f32)
    union { pb_acc_f32 whole; pb_acc_half_f32 half[2]; } x = {(a0 + a1) + (a2 + a3)}, y = {(a4 + a5) + (a6 + a7)};
    pb_acc_f64 *sums = (pb_acc_f64 *)m->p;
    sums[0] += __builtin_convertvector(x.half[0], pb_acc_f64) + __builtin_convertvector(y.half[0], pb_acc_f64);
    sums[1] += __builtin_convertvector(x.half[1], pb_acc_f64) + __builtin_convertvector(y.half[1], pb_acc_f64);
PB_STRIP_NEXT(f32)

/* What `sum` made of the whole strips. */
static pb_f64 pb_strip_total(const char *sums) {
    pb_vlanes_f64 all = {.v = ((const pb_acc_f64 *)sums)[0] + ((const pb_acc_f64 *)sums)[1]};
    for (unsigned w = sizeof all / sizeof *all.i / 2; w > 0; w /= 2)
        for (unsigned j = 0; j < w; j++) all.i[j] += all.i[j + w];
    return all.i[0];
}
#endif
