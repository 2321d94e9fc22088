/* Reductions of blocks of native values.
 *
 *   pb_rows[reduction][dtype](out, x, rows, n)   out[r] = reduction of x[r*n .. r*n+n-1]; n >= 1; arg*: out is i64
 *   pb_cols[reduction][dtype](out, x, rows, n)   out[k] = reduction of x[r*n + k] over r; rows >= 1; not for arg*
 *                                                sums of bools are counts, i64, in both
 *   pb_folds[reduction][dtype](acc, x, n)        acc[k] = acc[k] reduced with x[k]; f32 sums accumulate in f64
 *   pb_arg_more(...)                             goes on with an arg reduction over the next chunk of a row
 *
 * Float sums run over independent lanes that meet in a tree; f32 goes on in f64, f64 with what each addition lost.
 * A NaN wins max and min; the first NaN wins argmax and argmin, then the first extremum.
 */
#ifndef PB_REDUCE_H
#define PB_REDUCE_H
#include "pb_count.h"
#include "pb_lanes.h"

typedef pb_f32 pb_vec_f32 __attribute__((vector_size(PB_VECTOR_BYTES), aligned(4), may_alias));
typedef pb_f64 pb_vec_f64 __attribute__((vector_size(PB_VECTOR_BYTES), aligned(8), may_alias));
typedef pb_i32 pb_mask_f32 __attribute__((vector_size(PB_VECTOR_BYTES), may_alias));
typedef pb_i64 pb_mask_f64 __attribute__((vector_size(PB_VECTOR_BYTES), may_alias));

typedef void (*pb_rows_fn)(char *out, const char *x, int64_t rows, int64_t n);
typedef void (*pb_fold_fn)(char *acc, const char *x, int64_t n);

#define PB_VADD(T, a, b) ((a) + (b))
#define PB_VMUL(T, a, b) ((a) * (b))
/* b where b wins or is NaN, else a; a NaN in a stays because nothing compares with it */
#define PB_VPICK(T, a, b, cmp) ({                                                                                       \
    pb_vec_##T pb_a = (a), pb_b = (b);                                                                                  \
    pb_mask_##T pb_m = (pb_mask_##T)(pb_b cmp pb_a) | (pb_mask_##T)(pb_b != pb_b);                                      \
    (pb_vec_##T)(((pb_mask_##T)pb_b & pb_m) | ((pb_mask_##T)pb_a & ~pb_m)); })
#define PB_VMAX(T, a, b) PB_VPICK(T, a, b, >)
#define PB_VMIN(T, a, b) PB_VPICK(T, a, b, <)

/* One row of floats: four vectors in flight, then one, then single elements. */
#define PB_FLOAT_ROW(name, op, T, VOP)                                                                                 \
    PB_INLINE pb_##T pb_row_##name##_##T(const pb_##T *x, int64_t n) {                                                  \
        enum { L = PB_VECTOR_BYTES / sizeof(pb_##T) };                                                                  \
        int64_t i = 0;                                                                                                  \
        pb_##T total;                                                                                                   \
        if (n >= L) {                                                                                                   \
            pb_vec_##T a = *(const pb_vec_##T *)x;                                                                      \
            i = L;                                                                                                      \
            if (n >= 4 * L) {                                                                                           \
                pb_vec_##T b = *(const pb_vec_##T *)(x + L), c = *(const pb_vec_##T *)(x + 2 * L),                      \
                           d = *(const pb_vec_##T *)(x + 3 * L);                                                        \
                for (i = 4 * L; i + 4 * L <= n; i += 4 * L) {                                                           \
                    a = VOP(T, a, *(const pb_vec_##T *)(x + i)), b = VOP(T, b, *(const pb_vec_##T *)(x + i + L));       \
                    c = VOP(T, c, *(const pb_vec_##T *)(x + i + 2 * L)), d = VOP(T, d, *(const pb_vec_##T *)(x + i + 3 * L)); \
                }                                                                                                       \
                a = VOP(T, a, b), c = VOP(T, c, d), a = VOP(T, a, c);                                                   \
            }                                                                                                           \
            for (; i + L <= n; i += L) a = VOP(T, a, *(const pb_vec_##T *)(x + i));                                     \
            pb_##T lanes[L];                                                                                            \
            memcpy(lanes, &a, sizeof a);                                                                                \
            for (int w = L / 2; w > 0; w /= 2)                                                                          \
                for (int j = 0; j < w; j++) lanes[j] = pb_##op##_##T(lanes[j], lanes[j + w]);                           \
            total = lanes[0];                                                                                           \
        } else {                                                                                                        \
            total = x[0], i = 1;                                                                                        \
        }                                                                                                               \
        for (; i < n; i++) total = pb_##op##_##T(total, x[i]);                                                          \
        return total;                                                                                                   \
    }

#define PB_INT_ROWS(name, op, T)                                                                                        \
    PB_INLINE pb_##T pb_row_##name##_##T(const pb_##T *x, int64_t n) {                                                  \
        pb_##T total = x[0];                                                                                            \
        for (int64_t i = 1; i < n; i++) total = pb_##op##_##T(total, x[i]);                                             \
        return total;                                                                                                   \
    }                                                                                                                   \
    PB_ROWS(name, op, T)

/* Short rows go four at a time: four chains of dependent operations instead of one. */
#define PB_ROWS(name, op, T)                                                                                            \
    static void pb_rows_##name##_##T(char *out_, const char *x_, int64_t rows, int64_t n) {                             \
        pb_##T *out = (pb_##T *)out_;                                                                                   \
        const pb_##T *x = (const pb_##T *)x_;                                                                           \
        if (n < 16)                                                                                                     \
            for (; rows >= 4; rows -= 4, x += 4 * n, out += 4) {                                                        \
                pb_##T a = pb_mov_##T(x[0]), b = pb_mov_##T(x[n]), c = pb_mov_##T(x[2 * n]), d = pb_mov_##T(x[3 * n]);  \
                for (int64_t i = 1; i < n; i++) {                                                                       \
                    a = pb_##op##_##T(a, x[i]), b = pb_##op##_##T(b, x[n + i]);                                         \
                    c = pb_##op##_##T(c, x[2 * n + i]), d = pb_##op##_##T(d, x[3 * n + i]);                             \
                }                                                                                                       \
                out[0] = a, out[1] = b, out[2] = c, out[3] = d;                                                         \
            }                                                                                                           \
        for (; rows > 0; rows--, x += n) *out++ = pb_row_##name##_##T(x, n);                                            \
    }                                                                                                                   \
    static void pb_cols_##name##_##T(char *out_, const char *x_, int64_t rows, int64_t n) {                             \
        pb_##T *restrict out = (pb_##T *)out_;                                                                          \
        const pb_##T *x = (const pb_##T *)x_;                                                                           \
        memcpy(out, x, (size_t)n * sizeof *out);                                                                        \
        x += n, rows--;                                                                                                 \
        for (; rows >= 4; rows -= 4, x += 4 * n) {                                                                      \
            const pb_##T *b = x + n, *c = b + n, *d = c + n;                                                            \
            PB_VECTOR for (int64_t k = 0; k < n; k++) {                                                                 \
                pb_##T ab = pb_##op##_##T(x[k], b[k]), cd = pb_##op##_##T(c[k], d[k]);                                  \
                out[k] = pb_##op##_##T(out[k], pb_##op##_##T(ab, cd));                                                  \
            }                                                                                                           \
        }                                                                                                               \
        for (; rows > 0; rows--, x += n)                                                                                \
            PB_VECTOR for (int64_t k = 0; k < n; k++) out[k] = pb_##op##_##T(out[k], x[k]);                             \
    }

#define PB_FOLD(name, op, T, A)                                                                                         \
    static void pb_fold_##name##_##T(char *acc_, const char *x_, int64_t n) {                                           \
        pb_##A *restrict acc = (pb_##A *)acc_;                                                                          \
        const pb_##T *x = (const pb_##T *)x_;                                                                           \
        PB_VECTOR for (int64_t k = 0; k < n; k++) acc[k] = pb_##op##_##A(acc[k], x[k]);                                 \
    }

PB_FLOAT_ROW(lanes, add, f32, PB_VADD) PB_FLOAT_ROW(lanes, add, f64, PB_VADD)

/* Four vectors meet in f32, two roundings deep; everything after that is added in f64. */
PB_INLINE pb_f32 pb_row_sum_f32(const pb_f32 *x, int64_t n) {
    enum { L = PB_VECTOR_BYTES / sizeof(pb_f32) };
    if (n < 4 * L) return pb_row_lanes_f32(x, n);
    pb_vec_f64 low = {0}, high = {0};
    int64_t i = 0;
    for (; i + 4 * L <= n; i += 4 * L) {
        const pb_vec_f32 *at = (const pb_vec_f32 *)(x + i);
        const pb_vec_f32 four = (at[0] + at[1]) + (at[2] + at[3]);
        low += pb_v_low_f64(four), high += pb_v_high_f64(four);
    }
    low += high;
    pb_f64 lanes[L / 2], total = i < n ? pb_row_lanes_f32(x + i, n - i) : 0;
    memcpy(lanes, &low, sizeof low);
    for (int w = L / 4; w > 0; w /= 2)
        for (int j = 0; j < w; j++) lanes[j] += lanes[j + w];
    return (pb_f32)(total + lanes[0]);
}

/* total += x; what the rounding lost goes to *lost */
PB_INLINE pb_f64 pb_add_exactly(pb_f64 total, pb_f64 x, pb_f64 *lost) {
    pb_f64 sum = total + x, back = sum - total, error = (total - (sum - back)) + (x - back);
    *lost += error == error ? error : 0; /* infinities leave nothing behind */
    return sum;
}

PB_INLINE pb_f64 pb_row_sum_f64(const pb_f64 *x, int64_t n) {
    enum { CHUNK = 8 * PB_VECTOR_BYTES };
    pb_f64 total = 0, lost = 0;
    if (n <= CHUNK) return pb_row_lanes_f64(x, n);
    for (int64_t i = 0; i < n; i += CHUNK) total = pb_add_exactly(total, pb_row_lanes_f64(x + i, n - i < CHUNK ? n - i : CHUNK), &lost);
    return total + lost;
}
PB_ROWS(sum, add, f32) PB_ROWS(sum, add, f64)
PB_FLOAT_ROW(prod, mul, f32, PB_VMUL) PB_FLOAT_ROW(prod, mul, f64, PB_VMUL) PB_ROWS(prod, mul, f32) PB_ROWS(prod, mul, f64)
PB_FLOAT_ROW(max, maximum, f32, PB_VMAX) PB_FLOAT_ROW(max, maximum, f64, PB_VMAX) PB_ROWS(max, maximum, f32) PB_ROWS(max, maximum, f64)
PB_FLOAT_ROW(min, minimum, f32, PB_VMIN) PB_FLOAT_ROW(min, minimum, f64, PB_VMIN) PB_ROWS(min, minimum, f32) PB_ROWS(min, minimum, f64)
PB_INT_ROWS(sum, add, i32) PB_INT_ROWS(sum, add, i64) PB_INT_ROWS(prod, mul, i32) PB_INT_ROWS(prod, mul, i64)
PB_INT_ROWS(max, maximum, i32) PB_INT_ROWS(max, maximum, i64) PB_INT_ROWS(min, minimum, i32) PB_INT_ROWS(min, minimum, i64)

/* Of bytes that are any number: the largest, the smallest, and then whether it is 0. */
#define PB_BOOL_ROWS(name, op, cmp)                                                                                     \
    PB_INLINE pb_bool pb_row_##name##_bool(const pb_bool *x, int64_t n) {                                               \
        pb_bool total = x[0];                                                                                           \
        for (int64_t i = 1; i < n; i++) total = x[i] cmp total ? x[i] : total;                                          \
        return PB_TRUTH(total);                                                                                         \
    }                                                                                                                   \
    PB_ROWS(name, op, bool)
PB_BOOL_ROWS(any, maximum, >) PB_BOOL_ROWS(all, minimum, <)

PB_FOLD(sum, add, f32, f64) PB_FOLD(sum, add, f64, f64) PB_FOLD(sum, add, i32, i32) PB_FOLD(sum, add, i64, i64)
PB_FOLD(prod, mul, f32, f32) PB_FOLD(prod, mul, f64, f64) PB_FOLD(prod, mul, i32, i32) PB_FOLD(prod, mul, i64, i64)
PB_FOLD(max, maximum, f32, f32) PB_FOLD(max, maximum, f64, f64) PB_FOLD(max, maximum, i32, i32)
PB_FOLD(max, maximum, i64, i64) PB_FOLD(min, minimum, f32, f32) PB_FOLD(min, minimum, f64, f64)
PB_FOLD(min, minimum, i32, i32) PB_FOLD(min, minimum, i64, i64)
PB_FOLD(any, maximum, bool, bool) PB_FOLD(all, minimum, bool, bool)

/* The fold of a single f64 sum: acc[1] is what the additions lost. */
static void pb_fold_exactly(char *acc_, const char *x) {
    pb_f64 *acc = (pb_f64 *)acc_;
    acc[0] = pb_add_exactly(acc[0], *(const pb_f64 *)x, &acc[1]);
}

/* --- arg reductions: find the extremum, then where it is first; both passes vectorise -------------------------------------- */

/* The first place of m, which is somewhere; of a NaN when m is one. Four vectors are looked at together. */
#define PB_FIND_FLOAT(T)                                                                                                \
    PB_INLINE int64_t pb_find_##T(const pb_##T *x, int64_t n, pb_##T m) {                                               \
        enum { L = PB_VECTOR_BYTES / sizeof(pb_##T) };                                                                  \
        int64_t i = 0;                                                                                                  \
        if (m != m) {                                                                                                   \
            while (x[i] == x[i]) i++;                                                                                   \
            return i;                                                                                                   \
        }                                                                                                               \
        pb_vec_##T wanted = m - (pb_vec_##T){0};                                                                        \
        for (; i + 4 * L <= n; i += 4 * L) {                                                                            \
            const pb_##T *at = x + i;                                                                                   \
            pb_mask_##T hit = (pb_mask_##T)(*(const pb_vec_##T *)at == wanted);                                         \
            for (int k = 1; k < 4; k++) hit |= (pb_mask_##T)(*(const pb_vec_##T *)(at + k * L) == wanted);              \
            uint64_t words[PB_VECTOR_BYTES / 8], any = 0;                                                               \
            memcpy(words, &hit, sizeof hit);                                                                            \
            for (int k = 0; k < PB_VECTOR_BYTES / 8; k++) any |= words[k];                                              \
            if (any) break;                                                                                             \
        }                                                                                                               \
        while (x[i] != m) i++;                                                                                          \
        return i;                                                                                                       \
    }
#define PB_FIND_INT(T)                                                                                                  \
    PB_INLINE int64_t pb_find_##T(const pb_##T *x, int64_t n, pb_##T m) {                                               \
        int64_t i = 0;                                                                                                  \
        for (; i + 64 <= n; i += 64) {                                                                                  \
            pb_##T hit = 0;                                                                                             \
            for (int j = 0; j < 64; j++) hit |= pb_eq_##T(x[i + j], m);                                                 \
            if (hit) break;                                                                                             \
        }                                                                                                               \
        while (pb_ne_##T(x[i], m)) i++;                                                                                 \
        return i;                                                                                                       \
    }
PB_FIND_FLOAT(f32) PB_FIND_FLOAT(f64) PB_FIND_INT(bool) PB_FIND_INT(i32) PB_FIND_INT(i64)

#define PB_ARG(name, extremum, T, cmp)                                                                                  \
    static void pb_rows_##name##_##T(char *out, const char *x_, int64_t rows, int64_t n) {                              \
        const pb_##T *x = (const pb_##T *)x_;                                                                           \
        for (int64_t r = 0; r < rows; r++, x += n)                                                                      \
            ((int64_t *)out)[r] = pb_find_##T(x, n, pb_row_##extremum##_##T(x, n));                                     \
    }                                                                                                                   \
    static void pb_more_##name##_##T(int64_t *index, char *value, const char *x, int64_t start, int64_t n) {            \
        pb_##T here = pb_mov_##T(pb_row_##extremum##_##T((const pb_##T *)x, n)), *best = (pb_##T *)value;                           \
        if (start == 0 || (*best == *best && (here cmp *best || here != here)))                                         \
            *best = here, *index = start + pb_find_##T((const pb_##T *)x, n, here);                                     \
    }
PB_ARG(argmax, max, f32, >) PB_ARG(argmax, max, f64, >) PB_ARG(argmax, max, i32, >) PB_ARG(argmax, max, i64, >)
PB_ARG(argmax, any, bool, >) PB_ARG(argmin, min, f32, <) PB_ARG(argmin, min, f64, <) PB_ARG(argmin, min, i32, <)
PB_ARG(argmin, min, i64, <) PB_ARG(argmin, all, bool, <)

typedef void (*pb_more_fn)(int64_t *index, char *value, const char *x, int64_t start, int64_t n);

#define PB_OF_NUMBERS(kind, name)                                                                                       \
    [PB_R_##name] = {[PB_N_i32] = kind##_##name##_i32, [PB_N_i64] = kind##_##name##_i64,                                \
                     [PB_N_f32] = kind##_##name##_f32, [PB_N_f64] = kind##_##name##_f64}
#define PB_OF_EXTREMA(kind, name, bools)                                                                                \
    [PB_R_##name] = {[PB_N_bool] = kind##_##bools##_bool, [PB_N_i32] = kind##_##name##_i32,                             \
                     [PB_N_i64] = kind##_##name##_i64, [PB_N_f32] = kind##_##name##_f32, [PB_N_f64] = kind##_##name##_f64}
#define PB_OF_SUMS(kind) /* counts of booleans are i64 */                                                               \
    [PB_R_sum] = {[PB_N_bool] = kind##_sum_bool, [PB_N_i32] = kind##_sum_i32, [PB_N_i64] = kind##_sum_i64,              \
                  [PB_N_f32] = kind##_sum_f32, [PB_N_f64] = kind##_sum_f64}
#define PB_OF_BOOLS(kind, name) [PB_R_##name] = {[PB_N_bool] = kind##_##name##_bool}

static const pb_rows_fn pb_rows[PB_REDUCTIONS][PB_NATIVE_TYPES] = {
    PB_OF_SUMS(pb_rows), PB_OF_NUMBERS(pb_rows, prod), PB_OF_EXTREMA(pb_rows, max, any),
    PB_OF_EXTREMA(pb_rows, min, all), PB_OF_BOOLS(pb_rows, any), PB_OF_BOOLS(pb_rows, all),
    PB_OF_EXTREMA(pb_rows, argmax, argmax), PB_OF_EXTREMA(pb_rows, argmin, argmin),
};
static const pb_rows_fn pb_cols[PB_REDUCTIONS][PB_NATIVE_TYPES] = {
    PB_OF_SUMS(pb_cols), PB_OF_NUMBERS(pb_cols, prod), PB_OF_EXTREMA(pb_cols, max, any),
    PB_OF_EXTREMA(pb_cols, min, all), PB_OF_BOOLS(pb_cols, any), PB_OF_BOOLS(pb_cols, all),
};
static const pb_fold_fn pb_folds[PB_REDUCTIONS][PB_NATIVE_TYPES] = {
    PB_OF_NUMBERS(pb_fold, sum), PB_OF_NUMBERS(pb_fold, prod), PB_OF_EXTREMA(pb_fold, max, any),
    PB_OF_EXTREMA(pb_fold, min, all), PB_OF_BOOLS(pb_fold, any), PB_OF_BOOLS(pb_fold, all),
};
static const pb_more_fn pb_more[PB_REDUCTIONS][PB_NATIVE_TYPES] = {
    PB_OF_EXTREMA(pb_more, argmax, argmax), PB_OF_EXTREMA(pb_more, argmin, argmin),
};

/* n times the identity of a reduction, in the type that pb_folds accumulates in. */
static void pb_fill_identity(int32_t reduction, int32_t dtype, char *acc, int64_t n) {
    int largest = reduction == PB_R_min, low = reduction == PB_R_max;
    for (int64_t k = 0; k < n; k++) {
        if (dtype == PB_N_f64 || (dtype == PB_N_f32 && reduction == PB_R_sum))
            ((pb_f64 *)acc)[k] = low ? -PB_INF_f64 : largest ? PB_INF_f64 : reduction == PB_R_prod;
        else if (dtype == PB_N_f32)
            ((pb_f32 *)acc)[k] = low ? -PB_INF_f32 : largest ? PB_INF_f32 : reduction == PB_R_prod;
        else if (dtype == PB_N_i64)
            ((pb_i64 *)acc)[k] = low ? INT64_MIN : largest ? INT64_MAX : reduction == PB_R_prod;
        else if (dtype == PB_N_i32)
            ((pb_i32 *)acc)[k] = low ? INT32_MIN : largest ? INT32_MAX : reduction == PB_R_prod;
        else
            ((pb_bool *)acc)[k] = reduction == PB_R_all || largest;
    }
}
#endif
