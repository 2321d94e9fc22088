/* What a bundle's nests need beside the scalar operations: addresses, index checks, block reductions.
 *
 * A reduction along the inner axis keeps a state `pb_fold_<reduce>_<dtype>`, fed block by block: `_begin`, `_block(state, values, count[,
 * position of the first value])` or `_carry(state, what registers carried)`, `_end`. Blocks are summed by several vectors of lanes and a tree; the sums of blocks are
 * added in double for float32 and with compensation for float64: at least as exact as pairwise summation.
 */
#ifndef PB_BUNDLE_H
#define PB_BUNDLE_H
#include <stdint.h>
#include <string.h>

#include "pb_abi.h"
#include "pb_compiler.h"
#include "pb_compress.h"
#include "pb_scalar.h"
#include "pb_vector.h"
#include "pb_width.h"

#define PB_BLOCK 256 /* elements that are staged at a time (pgo/codegen_nest.py BLOCK) */

#define PB_BUNDLE_SHARED static PB_APART __attribute__((unused))

/* Elements in memory, at any alignment: `pb_at_f32(address)` is an lvalue. */
#define PB_MEMORY_AT(D) typedef pb_##D pb_mem_##D __attribute__((aligned(1), may_alias));
PB_MEMORY_AT(bool) PB_MEMORY_AT(i8) PB_MEMORY_AT(i16) PB_MEMORY_AT(i32) PB_MEMORY_AT(i64) PB_MEMORY_AT(u8) PB_MEMORY_AT(u16)
PB_MEMORY_AT(u32) PB_MEMORY_AT(f16) PB_MEMORY_AT(bf16) PB_MEMORY_AT(f32) PB_MEMORY_AT(f64)
#define pb_at_bool(p) (*(pb_mem_bool *)(p))
#define pb_at_i8(p) (*(pb_mem_i8 *)(p))
#define pb_at_i16(p) (*(pb_mem_i16 *)(p))
#define pb_at_i32(p) (*(pb_mem_i32 *)(p))
#define pb_at_i64(p) (*(pb_mem_i64 *)(p))
#define pb_at_u8(p) (*(pb_mem_u8 *)(p))
#define pb_at_u16(p) (*(pb_mem_u16 *)(p))
#define pb_at_u32(p) (*(pb_mem_u32 *)(p))
#define pb_at_f16(p) (*(pb_mem_f16 *)(p))
#define pb_at_bf16(p) (*(pb_mem_bf16 *)(p))
#define pb_at_f32(p) (*(pb_mem_f32 *)(p))
#define pb_at_f64(p) (*(pb_mem_f64 *)(p))

/* End of a run that cannot go on; its value is what `run` returns. */
PB_BUNDLE_SHARED int pb_stop(pb_frame *frame, int32_t code, int32_t position) {
    frame->trap_code = code;
    frame->trap_pos = position;
    return 1;
}

/* An index that lies outside [-extent, extent), and the wrapping of one inside. */
PB_INLINE int pb_is_outside(int64_t index, int64_t extent) {
    return (uint64_t)index + (uint64_t)extent >= 2 * (uint64_t)extent;
}
PB_INLINE int64_t pb_wrap(int64_t index, int64_t extent) { return index < 0 ? index + extent : index; }

/* Floor division and modulo of the integer program; a division by zero is guarded before and yields 0. */
PB_INLINE int64_t pb_int_floordiv(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    const int64_t q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
PB_INLINE int64_t pb_int_mod(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define PB_LANES_OF(T) ((int64_t)(PB_VECTOR_BYTES / sizeof(T)))

/* pb_lanes_<name>_<dtype>: one block combined by four vectors of lanes, then by a tree. */
#define PB_DEFINE_LANES(name, T, D, OP)                                                             \
    PB_BUNDLE_SHARED T pb_lanes_##name##_##D(const T *p, int64_t n, T identity) {                     \
        typedef T pb_v __attribute__((vector_size(PB_VECTOR_BYTES), aligned(sizeof(T)), may_alias)); \
        enum { W = PB_VECTOR_BYTES / sizeof(T) };                                                   \
        T total = identity;                                                                         \
        int64_t i = 0;                                                                              \
        if (n >= W) {                                                                               \
            T s[W] __attribute__((aligned(PB_VECTOR_BYTES)));                                       \
            pb_v a = *(const pb_v *)p;                                                              \
            i = W;                                                                                  \
            if (n >= 4 * W) {                                                                       \
                pb_v b = *(const pb_v *)(p + W), c = *(const pb_v *)(p + 2 * W);                    \
                pb_v d = *(const pb_v *)(p + 3 * W);                                                \
                for (i = 4 * W; i + 4 * W <= n; i += 4 * W) {                                       \
                    a = a OP * (const pb_v *)(p + i);                                               \
                    b = b OP * (const pb_v *)(p + i + W);                                           \
                    c = c OP * (const pb_v *)(p + i + 2 * W);                                       \
                    d = d OP * (const pb_v *)(p + i + 3 * W);                                       \
                }                                                                                   \
                a = (a OP b)OP(c OP d);                                                             \
            }                                                                                       \
            for (; i + W <= n; i += W) a = a OP * (const pb_v *)(p + i);                            \
            memcpy(s, &a, sizeof s);                                                                \
            for (int w = W / 2; w; w /= 2)                                                          \
                for (int l = 0; l < w; l++) s[l] = s[l] OP s[l + w];                                \
            total = s[0];                                                                           \
        }                                                                                           \
        for (; i < n; i++) total = total OP p[i];                                                   \
        return total;                                                                               \
    }

PB_DEFINE_LANES(sum, float, f32, +)
PB_DEFINE_LANES(sum, double, f64, +)
PB_DEFINE_LANES(sum, int32_t, i32, +)
PB_DEFINE_LANES(sum, int64_t, i64, +)
PB_DEFINE_LANES(prod, float, f32, *)
PB_DEFINE_LANES(prod, double, f64, *)
PB_DEFINE_LANES(prod, int32_t, i32, *)
PB_DEFINE_LANES(prod, int64_t, i64, *)

/* pb_carry_<reduce>_<dtype>: what one register carries of an inner reduction through a block: `_begin`, `_take` a vector, `_take_head`
 * its first n lanes, `_join` with another register's; `pb_fold_<reduce>_carry_<dtype>` takes it into the state. */
PB_INLINE pb_v_f32 pb_v_keep_f32(pb_v_f32 v, int64_t n, float rest) {
    pb_vlanes_i32 place;
    for (int i = 0; i < PB_V_f32; i++) place.i[i] = i;
    return n >= PB_V_f32 ? v : pb_v_select_f32((pb_v_b32)(place.v < (int32_t)n), v, pb_v_fill_f32(rest));
}
PB_INLINE pb_v_f64 pb_v_keep_f64(pb_v_f64 v, int64_t n, double rest) {
    pb_vlanes_i64 place;
    for (int i = 0; i < PB_V_f64; i++) place.i[i] = i;
    return n >= PB_V_f64 ? v : pb_v_select_f64((pb_v_b64)(place.v < n), v, pb_v_fill_f64(rest));
}
#define PB_DEFINE_CARRY(name, T, IDENTITY, OP)                                                      \
    typedef pb_v_##T pb_carry_##name##_##T;                                                         \
    PB_INLINE pb_v_##T pb_carry_##name##_begin_##T(void) { return pb_v_fill_##T(IDENTITY); }        \
    PB_INLINE void pb_carry_##name##_take_##T(pb_v_##T *q, pb_v_##T v) { *q = *q OP v; }            \
    PB_INLINE void pb_carry_##name##_take_head_##T(pb_v_##T *q, pb_v_##T v, int64_t n) {            \
        *q = *q OP pb_v_keep_##T(v, n, IDENTITY);                                                   \
    }                                                                                               \
    PB_INLINE void pb_carry_##name##_join_##T(pb_v_##T *q, const pb_v_##T *v) { *q = *q OP *v; }        \
    PB_INLINE pb_##T pb_carry_##name##_end_##T(const pb_v_##T *q) {                                 \
        pb_vlanes_##T s = {.v = *q};                                                                \
        for (int w = PB_V_##T / 2; w; w /= 2)                                                       \
            for (int l = 0; l < w; l++) s.i[l] = s.i[l] OP s.i[l + w];                              \
        return s.i[0];                                                                              \
    }
PB_DEFINE_CARRY(sum, f32, 0, +) PB_DEFINE_CARRY(sum, f64, 0, +) PB_DEFINE_CARRY(prod, f32, 1, *) PB_DEFINE_CARRY(prod, f64, 1, *)

/* The extremum of numbers, and where there was a NaN. */
#define PB_DEFINE_CARRY_BEST(name, T, B, IDENTITY, BETTER, CMP)                                     \
    typedef struct {                                                                                \
        pb_v_##T best;                                                                              \
        pb_v_##B nan;                                                                               \
    } pb_carry_##name##_##T;                                                                        \
    PB_INLINE pb_carry_##name##_##T pb_carry_##name##_begin_##T(void) {                             \
        return (pb_carry_##name##_##T){pb_v_fill_##T(IDENTITY), {0}};                               \
    }                                                                                               \
    PB_INLINE void pb_carry_##name##_take_##T(pb_carry_##name##_##T *q, pb_v_##T v) {               \
        q->best = pb_v_##BETTER##_##T(v, q->best);                                                  \
        q->nan |= (pb_v_##B)(v != v);                                                               \
    }                                                                                               \
    PB_INLINE void pb_carry_##name##_take_head_##T(pb_carry_##name##_##T *q, pb_v_##T v, int64_t n) {        \
        pb_carry_##name##_take_##T(q, pb_v_keep_##T(v, n, IDENTITY));                               \
    }                                                                                               \
    PB_INLINE void pb_carry_##name##_join_##T(pb_carry_##name##_##T *q, const pb_carry_##name##_##T *r) {        \
        q->best = pb_v_##BETTER##_##T(r->best, q->best);                                            \
        q->nan |= r->nan;                                                                           \
    }                                                                                               \
    PB_INLINE pb_##T pb_carry_##name##_end_##T(const pb_carry_##name##_##T *q, int *nan) {          \
        pb_vlanes_##T s = {.v = q->best};                                                           \
        pb_vlanes_##T bad = {.v = (pb_v_##T)q->nan};                                                \
        for (int l = 0; l < PB_V_##T; l++) *nan |= pb_bits_##T(bad.i[l]) != 0;                      \
        for (int l = 1; l < PB_V_##T; l++) s.i[0] = s.i[l] CMP s.i[0] ? s.i[l] : s.i[0];            \
        return s.i[0];                                                                              \
    }
PB_DEFINE_CARRY_BEST(max, f32, b32, -PB_INF_f32, greater, >) PB_DEFINE_CARRY_BEST(max, f64, b64, -PB_INF_f64, greater, >)
PB_DEFINE_CARRY_BEST(min, f32, b32, PB_INF_f32, lesser, <) PB_DEFINE_CARRY_BEST(min, f64, b64, PB_INF_f64, lesser, <)

/* pb_lanes_<max|min>_<dtype>: the extremum of a block of at least one value; *nan is set when there is a NaN (floats alone). */
#define PB_DEFINE_FLOAT_EXTREMUM(name, D)                                                            \
    PB_BUNDLE_SHARED pb_##D pb_lanes_##name##_##D(const pb_##D *p, int64_t n, int *nan) {            \
        enum { W = PB_V_##D };                                                                      \
        pb_carry_##name##_##D a = pb_carry_##name##_begin_##D(), b = a, c = a, d = a;               \
        int64_t i = 0;                                                                              \
        for (; i + 4 * W <= n; i += 4 * W) {                                                        \
            pb_carry_##name##_take_##D(&a, pb_v_at_##D(p + i));                                     \
            pb_carry_##name##_take_##D(&b, pb_v_at_##D(p + i + W));                                 \
            pb_carry_##name##_take_##D(&c, pb_v_at_##D(p + i + 2 * W));                             \
            pb_carry_##name##_take_##D(&d, pb_v_at_##D(p + i + 3 * W));                             \
        }                                                                                           \
        for (; i < n; i += W) pb_carry_##name##_take_head_##D(&a, pb_v_head_##D(p + i, n - i), n - i); \
        pb_carry_##name##_join_##D(&a, &b);                                                         \
        pb_carry_##name##_join_##D(&c, &d);                                                         \
        pb_carry_##name##_join_##D(&a, &c);                                                         \
        return pb_carry_##name##_end_##D(&a, nan);                                                  \
    }
PB_DEFINE_FLOAT_EXTREMUM(max, f32) PB_DEFINE_FLOAT_EXTREMUM(max, f64)
PB_DEFINE_FLOAT_EXTREMUM(min, f32) PB_DEFINE_FLOAT_EXTREMUM(min, f64)
#define PB_DEFINE_EXTREMUM(name, T, D, I, CMP)                                                      \
    PB_BUNDLE_SHARED T pb_lanes_##name##_##D(const T *p, int64_t n, int *nan) {                       \
        typedef T pb_v __attribute__((vector_size(PB_VECTOR_BYTES), aligned(sizeof(T)), may_alias)); \
        typedef I pb_m __attribute__((vector_size(PB_VECTOR_BYTES), aligned(sizeof(T)), may_alias)); \
        enum { W = PB_VECTOR_BYTES / sizeof(T) };                                                   \
        T best = p[0];                                                                              \
        int64_t i = 0;                                                                              \
        if (n >= W) {                                                                               \
            pb_v a = *(const pb_v *)p, b = a;                                                       \
            pb_m take;                                                                              \
            for (i = W; i + 2 * W <= n; i += 2 * W) {                                               \
                const pb_v x = *(const pb_v *)(p + i), y = *(const pb_v *)(p + i + W);              \
                take = x CMP a;                                                                     \
                a = (pb_v)(((pb_m)x & take) | ((pb_m)a & ~take));                                   \
                take = y CMP b;                                                                     \
                b = (pb_v)(((pb_m)y & take) | ((pb_m)b & ~take));                                   \
            }                                                                                       \
            for (; i + W <= n; i += W) {                                                            \
                const pb_v x = *(const pb_v *)(p + i);                                              \
                take = x CMP a;                                                                     \
                a = (pb_v)(((pb_m)x & take) | ((pb_m)a & ~take));                                   \
            }                                                                                       \
            T s[2 * W];                                                                             \
            memcpy(s, &a, sizeof a);                                                                \
            memcpy(s + W, &b, sizeof b);                                                            \
            best = s[0];                                                                            \
            for (int l = 0; l < 2 * W; l++) best = s[l] CMP best ? s[l] : best;                     \
        }                                                                                           \
        for (; i < n; i++) best = p[i] CMP best ? p[i] : best;                                      \
        (void)nan;                                                                                  \
        return best;                                                                                \
    }

PB_DEFINE_EXTREMUM(max, int32_t, i32, int32_t, >)
PB_DEFINE_EXTREMUM(max, int64_t, i64, int64_t, >)
PB_DEFINE_EXTREMUM(max, uint8_t, bool, int8_t, >)
PB_DEFINE_EXTREMUM(min, int32_t, i32, int32_t, <)
PB_DEFINE_EXTREMUM(min, int64_t, i64, int64_t, <)
PB_DEFINE_EXTREMUM(min, uint8_t, bool, int8_t, <)

/* --- states --------------------------------------------------------------------------------------------------------- */

typedef struct {
    double total;
} pb_fold_sum_f32;
PB_INLINE void pb_fold_sum_begin_f32(pb_fold_sum_f32 *s) { s->total = 0; }
PB_INLINE void pb_fold_sum_block_f32(pb_fold_sum_f32 *s, const float *p, int64_t n) {
    s->total += pb_lanes_sum_f32(p, n, 0);
}
PB_INLINE void pb_fold_sum_carry_f32(pb_fold_sum_f32 *s, const pb_carry_sum_f32 *q) {
    s->total += pb_carry_sum_end_f32(q);
}
PB_INLINE float pb_fold_sum_end_f32(const pb_fold_sum_f32 *s) { return (float)s->total; }

typedef struct {
    double total, rest;
} pb_fold_sum_f64;
PB_INLINE void pb_fold_sum_begin_f64(pb_fold_sum_f64 *s) { s->total = s->rest = 0; }
PB_INLINE void pb_fold_sum_add_f64(pb_fold_sum_f64 *s, double x) {
    const double t = s->total + x, back = t - s->total;
    s->rest += (s->total - (t - back)) + (x - back);
    s->total = t;
}
PB_INLINE void pb_fold_sum_block_f64(pb_fold_sum_f64 *s, const double *p, int64_t n) {
    pb_fold_sum_add_f64(s, pb_lanes_sum_f64(p, n, 0));
}
PB_INLINE void pb_fold_sum_carry_f64(pb_fold_sum_f64 *s, const pb_carry_sum_f64 *q) {
    pb_fold_sum_add_f64(s, pb_carry_sum_end_f64(q));
}
PB_INLINE double pb_fold_sum_end_f64(const pb_fold_sum_f64 *s) { /* the rest is NaN where the total is infinite */
    return s->total - s->total == 0 ? s->total + s->rest : s->total;
}

#define PB_DEFINE_FOLD(name, T, D, IDENTITY, OP)                                            \
    typedef struct {                                                                        \
        T total;                                                                            \
    } pb_fold_##name##_##D;                                                                      \
    PB_INLINE void pb_fold_##name##_begin_##D(pb_fold_##name##_##D *s) { s->total = IDENTITY; }          \
    PB_INLINE void pb_fold_##name##_block_##D(pb_fold_##name##_##D *s, const T *p, int64_t n) {         \
        s->total = s->total OP pb_lanes_##name##_##D(p, n, IDENTITY);                       \
    }                                                                                       \
    PB_INLINE T pb_fold_##name##_end_##D(const pb_fold_##name##_##D *s) { return s->total; }

#define PB_DEFINE_FOLD_CARRY(D)                                                                      \
    PB_INLINE void pb_fold_prod_carry_##D(pb_fold_prod_##D *s, const pb_carry_prod_##D *q) { s->total *= pb_carry_prod_end_##D(q); }

PB_DEFINE_FOLD(sum, int32_t, i32, 0, +)
PB_DEFINE_FOLD(sum, int64_t, i64, 0, +)
PB_DEFINE_FOLD(prod, float, f32, 1, *)
PB_DEFINE_FOLD(prod, double, f64, 1, *)
PB_DEFINE_FOLD(prod, int32_t, i32, 1, *)
PB_DEFINE_FOLD(prod, int64_t, i64, 1, *)
PB_DEFINE_FOLD_CARRY(f32)
PB_DEFINE_FOLD_CARRY(f64)

#define PB_DEFINE_BEST(name, T, D, IDENTITY, CMP, NAN_VALUE)                                    \
    typedef struct {                                                                            \
        T best;                                                                                 \
        int nan;                                                                                \
    } pb_fold_##name##_##D;                                                                          \
    PB_INLINE void pb_fold_##name##_begin_##D(pb_fold_##name##_##D *s) {                                    \
        s->best = IDENTITY;                                                                     \
        s->nan = 0;                                                                             \
    }                                                                                           \
    PB_INLINE void pb_fold_##name##_block_##D(pb_fold_##name##_##D *s, const T *p, int64_t n) {             \
        const T best = pb_lanes_##name##_##D(p, n, &s->nan);                                    \
        s->best = best CMP s->best ? best : s->best;                                            \
    }                                                                                           \
    PB_INLINE T pb_fold_##name##_end_##D(const pb_fold_##name##_##D *s) { return s->nan ? NAN_VALUE : s->best; }        \
    typedef struct {                                                                            \
        T best;                                                                                 \
        int64_t at;                                                                             \
    } pb_fold_arg##name##_##D;                                                                       \
    /* Whether v replaces the best so far: the first NaN wins, then the first extremum. */      \
    PB_INLINE int pb_fold_arg##name##_takes_##D(T v, T best, int64_t at) {                             \
        return (at < 0) | (v CMP best) | ((v != v) & (best == best));                           \
    }                                                                                           \
    PB_INLINE void pb_fold_arg##name##_begin_##D(pb_fold_arg##name##_##D *s) {                              \
        s->best = 0;                                                                            \
        s->at = -1;                                                                             \
    }                                                                                           \
    PB_BUNDLE_SHARED void pb_fold_arg##name##_block_##D(pb_fold_arg##name##_##D *s, const T *p, int64_t n, int64_t first) { \
        int nan = 0;                                                                            \
        const T best = pb_lanes_##name##_##D(p, n, &nan);                                       \
        if (s->at >= 0 && s->best != s->best) return;                                           \
        if (nan) {                                                                              \
            for (int64_t i = 0; i < n; i++)                                                     \
                if (p[i] != p[i]) {                                                             \
                    s->best = p[i];                                                             \
                    s->at = first + i;                                                          \
                    return;                                                                     \
                }                                                                               \
        } else if (s->at < 0 || best CMP s->best) {                                             \
            int64_t i = 0;                                                                      \
            while (p[i] != best) i++;                                                           \
            s->best = best;                                                                     \
            s->at = first + i;                                                                  \
        }                                                                                       \
    }                                                                                           \
    PB_INLINE int64_t pb_fold_arg##name##_end_##D(const pb_fold_arg##name##_##D *s) { return s->at; }

PB_DEFINE_BEST(max, float, f32, -__builtin_inff(), >, __builtin_nanf(""))
PB_DEFINE_BEST(max, double, f64, -__builtin_inf(), >, __builtin_nan(""))
PB_DEFINE_BEST(max, int32_t, i32, INT32_MIN, >, 0)
PB_DEFINE_BEST(max, int64_t, i64, INT64_MIN, >, 0)
PB_DEFINE_BEST(max, uint8_t, bool, 0, >, 0)
PB_DEFINE_BEST(min, float, f32, __builtin_inff(), <, __builtin_nanf(""))
PB_DEFINE_BEST(min, double, f64, __builtin_inf(), <, __builtin_nan(""))
PB_DEFINE_BEST(min, int32_t, i32, INT32_MAX, <, 0)
PB_DEFINE_BEST(min, int64_t, i64, INT64_MAX, <, 0)
PB_DEFINE_BEST(min, uint8_t, bool, 1, <, 0)

#define PB_DEFINE_BEST_CARRY(name, D, CMP)                                                                                   \
    PB_INLINE void pb_fold_##name##_carry_##D(pb_fold_##name##_##D *s, const pb_carry_##name##_##D *q) {                      \
        const pb_##D best = pb_carry_##name##_end_##D(q, &s->nan);                                                           \
        s->best = best CMP s->best ? best : s->best;                                                                         \
    }
PB_DEFINE_BEST_CARRY(max, f32, >) PB_DEFINE_BEST_CARRY(max, f64, >) PB_DEFINE_BEST_CARRY(min, f32, <) PB_DEFINE_BEST_CARRY(min, f64, <)

typedef struct {
    uint8_t value;
} pb_fold_any_bool, pb_fold_all_bool;
PB_INLINE void pb_fold_any_begin_bool(pb_fold_any_bool *s) { s->value = 0; }
PB_INLINE void pb_fold_all_begin_bool(pb_fold_all_bool *s) { s->value = 1; }
PB_INLINE void pb_fold_any_block_bool(pb_fold_any_bool *s, const uint8_t *p, int64_t n) {
    if (!s->value) s->value = memchr(p, 1, (size_t)n) != NULL;
}
PB_INLINE void pb_fold_all_block_bool(pb_fold_all_bool *s, const uint8_t *p, int64_t n) {
    if (s->value) s->value = memchr(p, 0, (size_t)n) == NULL;
}
PB_INLINE uint8_t pb_fold_any_end_bool(const pb_fold_any_bool *s) { return s->value; }
PB_INLINE uint8_t pb_fold_all_end_bool(const pb_fold_all_bool *s) { return s->value; }
#endif
