/* Runs of cheap operations, a strip of eight vectors at a time: the value in flight stays in registers.
 *
 * A block stencil reads its operands from L1 and writes its result there, which costs more than an addition does. So runs of
 * cheap operations (STRIPS of templates/stencils.py) become a list of micro-operations for an accumulator machine: each takes
 * the accumulator (eight vectors, which are its arguments), its other operand from memory, and ends in a call of the next
 * one, which the compiler turns into a jump; the last entry goes to the next strip. Forms of f(first, second):
 * `am` accumulator and memory, `ma` the other way round, `as` and `sa` with a scalar, `mm`, `ms`, `sm` without the accumulator;
 * `a` and `m` of f(x). The accumulator is stored where something else than the next operation reads it (pb_bind_strips).
 *
 * There are two machines, for lanes of 4 and of 8 bytes, called f32 and f64. A lane is a float, an integer, or a truth value: all of its
 * bits set, or none. Truth values in memory are a byte each; they become lanes when they are loaded, and bytes when they are stored.
 *
 * Lists that do whole rows (pb_nest_rows.h) reduce on their way: `sum`, `max` and `min` take the accumulator and pass it on. The last
 * strip of such a row may begin among elements that are done; these it makes once more, and sums leave them out.
 */
#ifndef PB_STRIP_H
#define PB_STRIP_H
#ifndef __OPTIMIZE__
#error "without optimisation the calls that end micro-operations would fill the stack"
#endif
#include "pb_compare.h"
#include "pb_compiler.h"
#include "pb_lanes.h"
#include "pb_scalar.h"
#include "pb_vector.h"
#include "pb_width.h"

enum {
    PB_STRIP_BYTES = 8 * PB_VECTOR_BYTES,
    PB_FORM_AM = 0, PB_FORM_MA, PB_FORM_AS, PB_FORM_SA, PB_FORM_MM, PB_FORM_MS, PB_FORM_SM, PB_FORMS2,
    PB_FORM_A = 0, PB_FORM_M, PB_FORMS1,
    PB_FORM_AMM = 0, PB_FORM_AMS, PB_FORM_ASM, PB_FORM_ASS, PB_FORM_MAM, PB_FORM_MAS, PB_FORM_MMA, PB_FORM_MSA, PB_FORMS3
};

typedef void (*pb_any_fn)(void);
typedef struct {
    pb_any_fn fn;
    char **from[2];      /* where the addresses of the operands in memory stand, first and second */
    char *p, *q;         /* those addresses, for this tile or window; an entry with three operands is two places long */
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
    PB_INLINE pb_acc_##T pb_spread_##T(const char *p) { return pb_v_fill_##T(*(const pb_##T *)p); }                     \
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
#define PB_STRIP_BEGIN(name, T) PB_STRIP_FORM(name, T, T)
#define PB_STRIP_FORM(name, T, M)                                                                                       \
    PB_APART static void pb_strip_##name##_##T(const pb_micro *m, int64_t at, pb_acc_##M a0, pb_acc_##M a1, pb_acc_##M a2, \
                                               pb_acc_##M a3, pb_acc_##M a4, pb_acc_##M a5, pb_acc_##M a6, pb_acc_##M a7) {
#define PB_STRIP_NEXT(T) ((pb_strip_##T)m[1].fn)(m + 1, at, a0, a1, a2, a3, a4, a5, a6, a7); }
#define PB_STRIP_NEXT_BUT_ONE(T) ((pb_strip_##T)m[2].fn)(m + 2, at, a0, a1, a2, a3, a4, a5, a6, a7); }
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
#define PB_IN_R(i) r
#define PB_STRIP_ALL3(f, X, Y, Z)                                                                                       \
    a0 = f(X(0), Y(0), Z(0)), a1 = f(X(1), Y(1), Z(1)), a2 = f(X(2), Y(2), Z(2)), a3 = f(X(3), Y(3), Z(3));             \
    a4 = f(X(4), Y(4), Z(4)), a5 = f(X(5), Y(5), Z(5)), a6 = f(X(6), Y(6), Z(6)), a7 = f(X(7), Y(7), Z(7));

/* Compute r here: left alone, GCC expands the last step of all eight at the call that takes them, and spills what these wait for. */
#if defined(__SSE2__) && defined(__GNUC__) && defined(PB_VECTORS_ARE_REGISTERS)
#define PB_STRIP_HERE(r) __asm__("" : "+v"(r))
#else
#define PB_STRIP_HERE(r) (void)0
#endif

/* T: what a lane holds; M: f32 or f64, the machine for lanes of that width. */
#define PB_STRIP2(op, T, M) PB_STRIP_FORMS2(op, T, M, pb_v_##op##_##T, PB_STRIP_ANY)
#define PB_STRIP_ANY(op_form, T, M, X)
/* maximum and minimum, whose instructions lose a NaN of the first operand: such are seldom there, and looked for once a strip. */
#define PB_STRIP2_EXTREME(op, wins, T)                                                                                  \
    PB_STRIP_FORMS2(careful_##op, T, T, pb_v_##op##_##T, PB_STRIP_ANY)                                                  \
    PB_STRIP_FORMS2(op, T, T, pb_v_##wins##_##T, PB_STRIP_NUMBERS)
#define PB_STRIP_NUMBERS(op_form, T, M, X)                                                                              \
    if (__builtin_expect(!pb_v_numbers_##T(X(0), X(1), X(2), X(3)) | !pb_v_numbers_##T(X(4), X(5), X(6), X(7)), 0)) {   \
        pb_strip_careful_##op_form##_##T(m, at, a0, a1, a2, a3, a4, a5, a6, a7);                                        \
        return;                                                                                                         \
    }
#define PB_STRIP_FORMS2(op, T, M, f, CHECK)                                                                             \
    PB_INLINE pb_acc_##M pb_vector_##op##_##T(pb_acc_##M x, pb_acc_##M y) {                                             \
        pb_acc_##M r = (pb_acc_##M)f((pb_v_##T)x, (pb_v_##T)y);                                                         \
        PB_STRIP_HERE(r);                                                                                               \
        return r;                                                                                                       \
    }                                                                                                                   \
    PB_STRIP_FORM(op##_am, T, M) PB_STRIP_Q(M) CHECK(op##_am, T, M, PB_IN_A)                                            \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_Q) PB_STRIP_NEXT(M)                                           \
    PB_STRIP_FORM(op##_ma, T, M) PB_STRIP_P(M) CHECK(op##_ma, T, M, PB_IN_P)                                            \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_A) PB_STRIP_NEXT(M)                                           \
    PB_STRIP_FORM(op##_as, T, M) CHECK(op##_as, T, M, PB_IN_A)                                                          \
        pb_acc_##M s = pb_spread_##T(m->q);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_S) PB_STRIP_NEXT(M)                                           \
    PB_STRIP_FORM(op##_sa, T, M)                                                                                        \
        pb_acc_##M s = pb_spread_##T(m->p);                                                                             \
        CHECK(op##_sa, T, M, PB_IN_S)                                                                                   \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_S, PB_IN_A) PB_STRIP_NEXT(M)                                           \
    PB_STRIP_FORM(op##_mm, T, M) PB_STRIP_P(M) PB_STRIP_Q(M) CHECK(op##_mm, T, M, PB_IN_P)                              \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_Q) PB_STRIP_NEXT(M)                                           \
    PB_STRIP_FORM(op##_ms, T, M) PB_STRIP_P(M) CHECK(op##_ms, T, M, PB_IN_P)                                            \
        pb_acc_##M s = pb_spread_##T(m->q);                                                                             \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_S) PB_STRIP_NEXT(M)                                           \
    PB_STRIP_FORM(op##_sm, T, M) PB_STRIP_Q(M)                                                                          \
        pb_acc_##M s = pb_spread_##T(m->p);                                                                             \
        CHECK(op##_sm, T, M, PB_IN_S)                                                                                   \
        PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_S, PB_IN_Q) PB_STRIP_NEXT(M)
#define PB_STRIP_ROW2(op, T)                                                                                            \
    (pb_any_fn)pb_strip_##op##_am_##T, (pb_any_fn)pb_strip_##op##_ma_##T, (pb_any_fn)pb_strip_##op##_as_##T,            \
    (pb_any_fn)pb_strip_##op##_sa_##T, (pb_any_fn)pb_strip_##op##_mm_##T, (pb_any_fn)pb_strip_##op##_ms_##T,            \
    (pb_any_fn)pb_strip_##op##_sm_##T

#define PB_STRIP1(op, T, M)                                                                                             \
    PB_INLINE pb_acc_##M pb_vector_##op##_##T(pb_acc_##M x, pb_acc_##M y) {                                             \
        pb_acc_##M r = (pb_acc_##M)pb_v_##op##_##T((pb_v_##T)x);                                                        \
        PB_STRIP_HERE(r);                                                                                               \
        return (void)y, r;                                                                                              \
    }                                                                                                                   \
    PB_STRIP_FORM(op##_a, T, M) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_A, PB_IN_A) PB_STRIP_NEXT(M)                   \
    PB_STRIP_FORM(op##_m, T, M) PB_STRIP_P(M) PB_STRIP_ALL(pb_vector_##op##_##T, PB_IN_P, PB_IN_P) PB_STRIP_NEXT(M)
#define PB_STRIP_ROW1(op, T) (pb_any_fn)pb_strip_##op##_a_##T, (pb_any_fn)pb_strip_##op##_m_##T
#define PB_STRIP_CAST(F, T, M)                                                                                          \
    PB_INLINE pb_v_##T pb_v_to_##T##_##F(pb_v_##F x) { return pb_v_cast_##F##_##T(x); }                                 \
    PB_STRIP1(to_##T, F, M)

/* select, `a` first: the condition is in the accumulator; second, third: what is chosen where it holds, and where not. */
#define PB_STRIP3(op, T, M)                                                                                             \
    PB_INLINE pb_acc_##M pb_vector_##op##_##T(pb_acc_##M c, pb_acc_##M x, pb_acc_##M y) {                               \
        pb_acc_##M r = pb_strip_pick_##M(c, x, y);                                                                      \
        PB_STRIP_HERE(r);                                                                                               \
        return r;                                                                                                       \
    }                                                                                                                   \
    PB_STRIP_FORM(op##_amm, T, M) PB_STRIP_P(M) PB_STRIP_Q(M)                                                           \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_A, PB_IN_P, PB_IN_Q) PB_STRIP_NEXT(M)                                 \
    PB_STRIP_FORM(op##_ams, T, M) PB_STRIP_P(M) pb_acc_##M s = pb_spread_##T(m->q);                                     \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_A, PB_IN_P, PB_IN_S) PB_STRIP_NEXT(M)                                 \
    PB_STRIP_FORM(op##_asm, T, M) PB_STRIP_Q(M) pb_acc_##M s = pb_spread_##T(m->p);                                     \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_A, PB_IN_S, PB_IN_Q) PB_STRIP_NEXT(M)                                 \
    PB_STRIP_FORM(op##_ass, T, M) pb_acc_##M s = pb_spread_##T(m->p), r = pb_spread_##T(m->q);                          \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_A, PB_IN_S, PB_IN_R) PB_STRIP_NEXT(M)                                 \
    PB_STRIP_FORM(op##_mam, T, M) PB_STRIP_P(M) PB_STRIP_Q(M)                                                           \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_P, PB_IN_A, PB_IN_Q) PB_STRIP_NEXT(M)                                 \
    PB_STRIP_FORM(op##_mas, T, M) PB_STRIP_P(M) pb_acc_##M s = pb_spread_##T(m->q);                                     \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_P, PB_IN_A, PB_IN_S) PB_STRIP_NEXT(M)                                 \
    PB_STRIP_FORM(op##_mma, T, M) PB_STRIP_P(M) PB_STRIP_Q(M)                                                           \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_P, PB_IN_Q, PB_IN_A) PB_STRIP_NEXT(M)                                 \
    PB_STRIP_FORM(op##_msa, T, M) PB_STRIP_P(M) pb_acc_##M s = pb_spread_##T(m->q);                                     \
        PB_STRIP_ALL3(pb_vector_##op##_##T, PB_IN_P, PB_IN_S, PB_IN_A) PB_STRIP_NEXT(M)
#define PB_STRIP_ROW3(op, T)                                                                                            \
    (pb_any_fn)pb_strip_##op##_amm_##T, (pb_any_fn)pb_strip_##op##_ams_##T, (pb_any_fn)pb_strip_##op##_asm_##T,         \
    (pb_any_fn)pb_strip_##op##_ass_##T, (pb_any_fn)pb_strip_##op##_mam_##T, (pb_any_fn)pb_strip_##op##_mas_##T,         \
    (pb_any_fn)pb_strip_##op##_mma_##T, (pb_any_fn)pb_strip_##op##_msa_##T

PB_STRIP_TYPES(f32)
PB_STRIP_TYPES(f64)

/* --- lanes of other types: integers, and truth values as wide as what stands beside them ------------------------------------ */

#define PB_STRIP_LANES(T, M)                                                                                            \
    PB_INLINE pb_acc_##M pb_spread_##T(const char *p) { return (pb_acc_##M)pb_v_fill_##T(*(const pb_##T *)p); }
#define PB_STRIP_TRUTHS(B, M)                                                                                           \
    PB_INLINE pb_acc_##M pb_spread_##B(const char *p) { return (pb_acc_##M)pb_v_fill_##B(*(const pb_bool *)p != 0); }
PB_STRIP_LANES(i32, f32) PB_STRIP_LANES(i64, f64) PB_STRIP_TRUTHS(b32, f32) PB_STRIP_TRUTHS(b64, f64)

/* c's lanes are all bits or none. GCC does not know that and would compare once more where it makes the instruction itself. */
#if defined(__AVX__) && defined(__GNUC__) && PB_VECTOR_BYTES == 32
#define PB_STRIP_PICK(T, B, instruction)                                                                                \
    PB_INLINE pb_acc_##T pb_strip_pick_##T(pb_acc_##T c, pb_acc_##T a, pb_acc_##T b) {                                  \
        __asm__(instruction " %3, %2, %1, %0" : "=x"(c) : "x"(b), "x"(a), "x"(c));                                      \
        return c;                                                                                                       \
    }
#else
#define PB_STRIP_PICK(T, B, instruction)                                                                                \
    PB_INLINE pb_acc_##T pb_strip_pick_##T(pb_acc_##T c, pb_acc_##T a, pb_acc_##T b) { return pb_v_select_##T((pb_v_##B)c, a, b); }
#endif
PB_STRIP_PICK(f32, b32, "vblendvps") PB_STRIP_PICK(f64, b64, "vblendvpd")

/* Comparisons of what is not in the accumulator (memory, or memory and a single value), made where they are read: the accumulator
 * is `a` or `b` of a choice whose other side is p of the place behind, or a truth value that is joined with the answer. */
#define PB_STRIP_WHENS(op, T, M)                                                                                        \
    PB_STRIP_WHEN(op, T, M, mm, a_m) PB_STRIP_WHEN(op, T, M, mm, a_s) PB_STRIP_WHEN(op, T, M, mm, b_m)                  \
    PB_STRIP_WHEN(op, T, M, mm, b_s) PB_STRIP_WHEN(op, T, M, mm, and) PB_STRIP_WHEN(op, T, M, mm, or)                   \
    PB_STRIP_WHEN(op, T, M, ms, a_m) PB_STRIP_WHEN(op, T, M, ms, a_s) PB_STRIP_WHEN(op, T, M, ms, b_m)                  \
    PB_STRIP_WHEN(op, T, M, ms, b_s) PB_STRIP_WHEN(op, T, M, ms, and) PB_STRIP_WHEN(op, T, M, ms, or)
#define PB_STRIP_WHENS_OF(op, T)                                                                                        \
    (pb_any_fn)pb_strip_##op##_mm_a_m_##T, (pb_any_fn)pb_strip_##op##_mm_a_s_##T, (pb_any_fn)pb_strip_##op##_mm_b_m_##T, \
    (pb_any_fn)pb_strip_##op##_mm_b_s_##T, (pb_any_fn)pb_strip_##op##_mm_and_##T, (pb_any_fn)pb_strip_##op##_mm_or_##T, \
    (pb_any_fn)pb_strip_##op##_ms_a_m_##T, (pb_any_fn)pb_strip_##op##_ms_a_s_##T, (pb_any_fn)pb_strip_##op##_ms_b_m_##T, \
    (pb_any_fn)pb_strip_##op##_ms_b_s_##T, (pb_any_fn)pb_strip_##op##_ms_and_##T, (pb_any_fn)pb_strip_##op##_ms_or_##T
enum { PB_WHEN_A_M = 0, PB_WHEN_A_S, PB_WHEN_B_M, PB_WHEN_B_S, PB_WHEN_AND, PB_WHEN_OR, PB_WHEN_MS };
#define PB_STRIP_WHEN(op, T, M, operands, how)                                                                          \
    PB_STRIP_FORM(op##_##operands##_##how, T, M)                                                                        \
        PB_STRIP_P(M) PB_WHEN_HAS_##operands(T, M) PB_WHEN_HAS_##how(T, M)                                              \
        PB_WHEN_EACH(0, op, T, M, operands, how) PB_WHEN_EACH(1, op, T, M, operands, how)                               \
        PB_WHEN_EACH(2, op, T, M, operands, how) PB_WHEN_EACH(3, op, T, M, operands, how)                               \
        PB_WHEN_EACH(4, op, T, M, operands, how) PB_WHEN_EACH(5, op, T, M, operands, how)                               \
        PB_WHEN_EACH(6, op, T, M, operands, how) PB_WHEN_EACH(7, op, T, M, operands, how)                               \
    PB_WHEN_NEXT_##how(M)
#define PB_WHEN_NEXT_a_m(M) PB_STRIP_NEXT_BUT_ONE(M)
#define PB_WHEN_NEXT_a_s(M) PB_STRIP_NEXT_BUT_ONE(M)
#define PB_WHEN_NEXT_b_m(M) PB_STRIP_NEXT_BUT_ONE(M)
#define PB_WHEN_NEXT_b_s(M) PB_STRIP_NEXT_BUT_ONE(M)
#define PB_WHEN_NEXT_and(M) PB_STRIP_NEXT(M)
#define PB_WHEN_NEXT_or(M) PB_STRIP_NEXT(M)
#define PB_WHEN_EACH(i, op, T, M, operands, how)                                                                        \
        a##i = PB_WHEN_##how(M, (pb_acc_##M)pb_v_##op##_##T((pb_v_##T)p[i], (pb_v_##T)PB_WHEN_##operands(i)), a##i, i); \
        PB_STRIP_HERE(a##i);
#define PB_WHEN_HAS_mm(T, M) PB_STRIP_Q(M)
#define PB_WHEN_HAS_ms(T, M) const pb_acc_##M s = pb_spread_##T(m->q);
#define PB_WHEN_mm(i) q[i]
#define PB_WHEN_ms(i) s
#define PB_WHEN_HAS_a_m(T, M) const pb_accmem_##M *r = (const pb_accmem_##M *)(m[1].p + at);
#define PB_WHEN_HAS_b_m(T, M) PB_WHEN_HAS_a_m(T, M)
#define PB_WHEN_HAS_a_s(T, M) const pb_acc_##M r = pb_spread_##T(m[1].p);
#define PB_WHEN_HAS_b_s(T, M) PB_WHEN_HAS_a_s(T, M)
#define PB_WHEN_HAS_and(T, M)
#define PB_WHEN_HAS_or(T, M)
#define PB_WHEN_a_m(M, c, a, i) pb_strip_pick_##M(c, a, r[i])
#define PB_WHEN_a_s(M, c, a, i) pb_strip_pick_##M(c, a, r)
#define PB_WHEN_b_m(M, c, a, i) pb_strip_pick_##M(c, r[i], a)
#define PB_WHEN_b_s(M, c, a, i) pb_strip_pick_##M(c, r, a)
#define PB_WHEN_and(M, c, a, i) (pb_acc_##M)((pb_v_i32)(c) & (pb_v_i32)(a))
#define PB_WHEN_or(M, c, a, i) (pb_acc_##M)((pb_v_i32)(c) | (pb_v_i32)(a))

/* Truth values in memory are a byte each, whatever is not 0 is true. p: of the row or window, so at counts lanes there. */
#define PB_STRIP_BYTES_OF(B, I, W, M)                                                                                   \
    typedef int8_t pb_bytes_##B __attribute__((vector_size(PB_VECTOR_BYTES / W)));                                      \
    typedef int8_t pb_bytesmem_##B __attribute__((vector_size(PB_VECTOR_BYTES / W), aligned(1), may_alias));            \
    PB_INLINE pb_acc_##M pb_strip_wide_##B(pb_bytesmem_##B x) {                                                         \
        return (pb_acc_##M)(__builtin_convertvector((pb_bytes_##B)x, pb_v_##I) != 0);                                   \
    }                                                                                                                   \
    PB_STRIP_FORM(load, B, M)                                                                                           \
        const pb_bytesmem_##B *p = (const pb_bytesmem_##B *)(m->p + at / W);                                            \
        a0 = pb_strip_wide_##B(p[0]), a1 = pb_strip_wide_##B(p[1]), a2 = pb_strip_wide_##B(p[2]);                       \
        a3 = pb_strip_wide_##B(p[3]), a4 = pb_strip_wide_##B(p[4]), a5 = pb_strip_wide_##B(p[5]);                       \
        a6 = pb_strip_wide_##B(p[6]), a7 = pb_strip_wide_##B(p[7]);                                                     \
    PB_STRIP_NEXT(M)                                                                                                    \
    PB_STRIP_BYTES_TO(B, I, W, M)                                                                                       \
    PB_STRIP_FORM(store, B, M) PB_STRIP_STORE_##W PB_STRIP_NEXT(M)                                                      \
    PB_STRIP_FORM(store_loop, B, M) PB_STRIP_STORE_##W PB_STRIP_LOOP(M)
#if PB_COMPARES /* the bytes of W vectors side by side, then one shuffle: pb_compare.h */
#define PB_STRIP_BYTES_TO(B, I, W, M)                                                                                   \
    PB_INLINE pb_v_##I pb_strip_part_##B(pb_acc_##M x, int k) {                                                         \
        return (pb_v_##I)x & pb_v_fill_##I((pb_##I)1 << (8 * k));                                                       \
    }                                                                                                                   \
    PB_INLINE void pb_strip_put_##B(char *p, pb_v_##I bytes) {                                                          \
        *(pb_answers_at *)p = __builtin_shuffle((pb_answers)bytes, PB_ANSWERS(W));                                      \
    }
#define PB_STRIP_PARTS_4(a, b, c, d)                                                                                    \
    (pb_strip_part_b32(a, 0) | pb_strip_part_b32(b, 1)) | (pb_strip_part_b32(c, 2) | pb_strip_part_b32(d, 3))
#define PB_STRIP_PARTS_8(a, b, c, d, k)                                                                                 \
    ((pb_strip_part_b64(a, k) | pb_strip_part_b64(b, k + 1)) | (pb_strip_part_b64(c, k + 2) | pb_strip_part_b64(d, k + 3)))
#define PB_STRIP_STORE_4                                                                                                \
        char *p = m->p + at / 4;                                                                                        \
        pb_strip_put_b32(p, PB_STRIP_PARTS_4(a0, a1, a2, a3));                                                          \
        pb_strip_put_b32(p + PB_VECTOR_BYTES, PB_STRIP_PARTS_4(a4, a5, a6, a7));
#define PB_STRIP_STORE_8 pb_strip_put_b64(m->p + at / 8, PB_STRIP_PARTS_8(a0, a1, a2, a3, 0) | PB_STRIP_PARTS_8(a4, a5, a6, a7, 4));
#else
#define PB_STRIP_BYTES_TO(B, I, W, M)                                                                                   \
    PB_INLINE pb_bytes_##B pb_strip_narrow_##B(pb_acc_##M x) {                                                          \
        return __builtin_convertvector((pb_v_##I)x, pb_bytes_##B) & 1;                                                  \
    }
#define PB_STRIP_STORE_4 PB_STRIP_STORE_EACH(b32, 4)
#define PB_STRIP_STORE_8 PB_STRIP_STORE_EACH(b64, 8)
#define PB_STRIP_STORE_EACH(B, W)                                                                                       \
        pb_bytesmem_##B *p = (pb_bytesmem_##B *)(m->p + at / W);                                                        \
        p[0] = pb_strip_narrow_##B(a0), p[1] = pb_strip_narrow_##B(a1), p[2] = pb_strip_narrow_##B(a2);                 \
        p[3] = pb_strip_narrow_##B(a3), p[4] = pb_strip_narrow_##B(a4), p[5] = pb_strip_narrow_##B(a5);                 \
        p[6] = pb_strip_narrow_##B(a6), p[7] = pb_strip_narrow_##B(a7);
#endif
PB_STRIP_BYTES_OF(b32, i32, 4, f32)
PB_STRIP_BYTES_OF(b64, i64, 8, f64)

/* --- reductions of rows -------------------------------------------------------------------------------------------------- */

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

/* Of integers and truth values, in the first register of `best`; no strip is added up twice. */
#define PB_STRIP_WHOLE(name, f, T, M)                                                                                   \
    PB_STRIP_ENDS_OF(name, T, M,                                                                                        \
        pb_v_##T *best = (pb_v_##T *)((pb_held_##M *)m->p)->best;                                                       \
        *best = f(f(f(f((pb_v_##T)a0, (pb_v_##T)a1), f((pb_v_##T)a2, (pb_v_##T)a3)),                                    \
                    f(f((pb_v_##T)a4, (pb_v_##T)a5), f((pb_v_##T)a6, (pb_v_##T)a7))), *best);)
#define PB_STRIP_ENDS_OF(name, T, M, ...)                                                                               \
    PB_STRIP_FORM(name, T, M) __VA_ARGS__ PB_STRIP_NEXT(M)                                                              \
    PB_STRIP_FORM(name##_loop, T, M) __VA_ARGS__ PB_STRIP_LOOP(M)
#define PB_STRIP_SUM_OF(T, M)                                                                                           \
    PB_INLINE pb_v_##T pb_strip_new_##T(pb_acc_##M x, const int8_t *is_new) {                                           \
        return (pb_v_##T)((pb_v_i32)x & *(const pb_vmem_i32 *)is_new);                                                  \
    }                                                                                                                   \
    PB_STRIP_ENDS_OF(sum, T, M,                                                                                         \
        pb_v_##T *best = (pb_v_##T *)((pb_held_##M *)m->p)->best;                                                       \
        const int8_t *w = pb_last_bytes + (at & (PB_STRIP_BYTES - 1)); /* of the last strip, what is new */             \
        if (__builtin_expect(w == pb_last_bytes, 1)) w += PB_STRIP_BYTES;                                               \
        *best += ((pb_strip_new_##T(a0, w) + pb_strip_new_##T(a1, w + PB_VECTOR_BYTES))                                 \
                  + (pb_strip_new_##T(a2, w + 2 * PB_VECTOR_BYTES) + pb_strip_new_##T(a3, w + 3 * PB_VECTOR_BYTES)))    \
                 + ((pb_strip_new_##T(a4, w + 4 * PB_VECTOR_BYTES) + pb_strip_new_##T(a5, w + 5 * PB_VECTOR_BYTES))     \
                    + (pb_strip_new_##T(a6, w + 6 * PB_VECTOR_BYTES) + pb_strip_new_##T(a7, w + 7 * PB_VECTOR_BYTES)));)
PB_STRIP_SUM_OF(i32, f32) PB_STRIP_SUM_OF(i64, f64)
PB_STRIP_WHOLE(max, pb_v_maximum_i32, i32, f32) PB_STRIP_WHOLE(min, pb_v_minimum_i32, i32, f32)
PB_STRIP_WHOLE(max, pb_v_maximum_i64, i64, f64) PB_STRIP_WHOLE(min, pb_v_minimum_i64, i64, f64)
PB_STRIP_WHOLE(any, pb_v_or_b32, b32, f32) PB_STRIP_WHOLE(all, pb_v_and_b32, b32, f32)
PB_STRIP_WHOLE(any, pb_v_or_b64, b64, f64) PB_STRIP_WHOLE(all, pb_v_and_b64, b64, f64)

/* --- reductions of columns: element by element into a row of memory, which goes on with windows as views do ------------------------- */

/* NEW: of the last strip, what is not folded yet; extrema and truth values may be folded twice. */
#define PB_STRIP_FOLD(name, f, NEW, T, M)                                                                               \
    PB_STRIP_ENDS_OF(fold_##name, T, M,                                                                                 \
        pb_accmem_##M *to = (pb_accmem_##M *)(m->p + at);                                                               \
        const int8_t *w = pb_last_bytes + (at & (PB_STRIP_BYTES - 1));                                                  \
        if (__builtin_expect(w == pb_last_bytes, 1)) {                                                                  \
            PB_STRIP_FOLD_EACH(f, PB_FOLD_ALL, T, M)                                                                    \
        } else {                                                                                                        \
            PB_STRIP_FOLD_EACH(f, NEW, T, M)                                                                            \
        })
#define PB_STRIP_FOLD_EACH(f, NEW, T, M)                                                                                \
        PB_STRIP_FOLD_ONE(f, NEW, T, M, 0) PB_STRIP_FOLD_ONE(f, NEW, T, M, 1) PB_STRIP_FOLD_ONE(f, NEW, T, M, 2)        \
        PB_STRIP_FOLD_ONE(f, NEW, T, M, 3) PB_STRIP_FOLD_ONE(f, NEW, T, M, 4) PB_STRIP_FOLD_ONE(f, NEW, T, M, 5)        \
        PB_STRIP_FOLD_ONE(f, NEW, T, M, 6) PB_STRIP_FOLD_ONE(f, NEW, T, M, 7)
#define PB_STRIP_FOLD_ONE(f, NEW, T, M, i) to[i] = (pb_acc_##M)f((pb_v_##T)to[i], NEW(T, M, a##i, i));
#define PB_FOLD_ALL(T, M, a, i) (pb_v_##T)a
#define PB_FOLD_NEW(T, M, a, i) (pb_v_##T)pb_strip_new_##T(a, w + i * PB_VECTOR_BYTES)
#define PB_STRIP_FOLDS(T, M)                                                                                            \
    PB_STRIP_FOLD(sum, pb_v_add_##T, PB_FOLD_NEW, T, M) PB_STRIP_FOLD(max, pb_v_maximum_##T, PB_FOLD_ALL, T, M)          \
    PB_STRIP_FOLD(min, pb_v_minimum_##T, PB_FOLD_ALL, T, M)                                                             \
    static const pb_any_fn pb_folds_##T[3][2] = {PB_FOLD_STEPS(sum, T), PB_FOLD_STEPS(max, T), PB_FOLD_STEPS(min, T)};
#define PB_STRIP_FOLD_TRUTHS(B, M)                                                                                      \
    PB_STRIP_FOLD(any, pb_v_or_##B, PB_FOLD_ALL, B, M) PB_STRIP_FOLD(all, pb_v_and_##B, PB_FOLD_ALL, B, M)               \
    static const pb_any_fn pb_folds_##B[2][2] = {PB_FOLD_STEPS(any, B), PB_FOLD_STEPS(all, B)};
#define PB_FOLD_STEPS(name, T) {(pb_any_fn)pb_strip_fold_##name##_##T, (pb_any_fn)pb_strip_fold_##name##_loop_##T}
PB_STRIP_FOLDS(f32, f32) PB_STRIP_FOLDS(f64, f64) PB_STRIP_FOLDS(i32, f32) PB_STRIP_FOLDS(i64, f64)
PB_STRIP_FOLD_TRUTHS(b32, f32) PB_STRIP_FOLD_TRUTHS(b64, f64)
#endif
