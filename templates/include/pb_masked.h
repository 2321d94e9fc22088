/* Sums of the elements under a mask: what `values[mask].mean()` needs.
 *
 *   pb_masked_sum_<dtype>(x, mask, n)        the sum of x[i] where mask[i]
 *   pb_masked[dtype](out, x, mask, rows, n)  out[r] = that of row r; NULL where dtype has no sums
 *
 * 64 elements at a time are passed over, and not read, when none is wanted; else the others become zeros.
 */
#ifndef PB_MASKED_H
#define PB_MASKED_H
#include "pb_reduce.h"

/* A: what the elements are added in; ADD takes the sum of a run into the total */
#define PB_MASKED_SUM(T, A, ROW, ADD)                                                                                   \
    PB_INLINE pb_##T pb_masked_sum_##T(const pb_##T *x, const pb_bool *mask, int64_t n) {                               \
        enum { R = 64 };                                                                                                \
        pb_##A held[4 * R], total = 0, lost = 0;                                                                        \
        int64_t n_held = 0, i = 0;                                                                                      \
        for (; i + R <= n; i += R) {                                                                                    \
            if (!pb_any_of_64(mask + i)) continue;                                                                      \
            PB_VECTOR for (int64_t k = 0; k < R; k++) held[n_held + k] = mask[i + k] ? (pb_##A)x[i + k] : 0;            \
            n_held += R;                                                                                                \
            if (n_held == 4 * R) total = ADD(total, ROW(held, n_held), &lost), n_held = 0;                              \
        }                                                                                                               \
        if (n_held) total = ADD(total, ROW(held, n_held), &lost);                                                       \
        for (n_held = 0; i < n; i++) held[n_held++] = mask[i] ? (pb_##A)x[i] : 0;                                       \
        if (n_held) total = ADD(total, ROW(held, n_held), &lost);                                                       \
        return (pb_##T)(total + lost);                                                                                  \
    }                                                                                                                   \
    static void pb_masked_rows_##T(char *out, const char *x, const pb_bool *mask, int64_t rows, int64_t n) {            \
        for (int64_t r = 0; r < rows; r++)                                                                              \
            ((pb_##T *)out)[r] = pb_masked_sum_##T((const pb_##T *)x + r * n, mask + r * n, n);                         \
    }
#define PB_ADD_PLAINLY(total, x, lost) ((void)(lost), (total) + (x))
PB_MASKED_SUM(f64, f64, pb_row_lanes_f64, pb_add_exactly)
PB_MASKED_SUM(f32, f64, pb_row_lanes_f64, PB_ADD_PLAINLY)
PB_MASKED_SUM(i64, i64, pb_row_sum_i64, PB_ADD_PLAINLY)
PB_MASKED_SUM(i32, i32, pb_row_sum_i32, PB_ADD_PLAINLY)

/* dst[i] = src[i] where the mask holds, else 0. */
static void pb_keep_wanted(int32_t bytes, char *dst, const pb_bool *mask, const char *src, int64_t n) {
    if (bytes == 4) PB_VECTOR for (int64_t i = 0; i < n; i++) ((pb_i32 *)dst)[i] = mask[i] ? ((const pb_i32 *)src)[i] : 0;
    else PB_VECTOR for (int64_t i = 0; i < n; i++) ((pb_i64 *)dst)[i] = mask[i] ? ((const pb_i64 *)src)[i] : 0;
}

typedef void (*pb_masked_fn)(char *out, const char *x, const pb_bool *mask, int64_t rows, int64_t n);
static const pb_masked_fn pb_masked[PB_NATIVE_TYPES] = {
    [PB_N_i32] = pb_masked_rows_i32, [PB_N_i64] = pb_masked_rows_i64, [PB_N_f32] = pb_masked_rows_f32,
    [PB_N_f64] = pb_masked_rows_f64,
};
#endif
